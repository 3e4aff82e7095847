import { describe, expect, test } from "vitest";
import { CRON_TASK, NS, TEMPLATE } from "./seed";
import { deleteShown, freshName, useBrowser, WORK } from "./session";

describe("CronTasks", () => {
  const session = useBrowser();

  test("a CronTask is created, triggered, suspended, resumed and deleted", WORK, async () => {
    const { page, go } = session;
    const name = freshName("cron");
    await go(`/crontasks/create?namespace=${NS}`);
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByRole("button", { name: "Every day at 9" }).click();
    await page.getByText("09:00").first().waitFor();
    await page.getByLabel("Description").fill("[[say Nothing to report.]]");
    await page.getByRole("button", { name: "A template" }).click();
    await page.getByLabel("Template", { exact: true }).selectOption(TEMPLATE);
    await page.getByRole("button", { name: "Create CronTask" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByRole("button", { name: "Run now" }).click();
    await page.getByRole("group", { name: "Run history" }).getByRole("link").first().waitFor(WORK);
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.locator("h1", { hasText: "Suspended" }).waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Suspend" }).waitFor();
    await deleteShown(session, "CronTask", /1 Task created by it/);
    await page.getByRole("heading", { level: 1, name: "CronTasks" }).waitFor();
  });

  test("an invalid schedule is reported while typing", async () => {
    const { page, go } = session;
    session.expectedErrors = [422];
    await go(`/crontasks/create?namespace=${NS}`);
    await page.getByLabel("Schedule").fill("every day");
    await page.getByRole("alert").first().waitFor();
    expect(await page.getByLabel("Schedule").getAttribute("aria-invalid")).toBe("true");
  });

  test("the next runs are shown in another time zone", async () => {
    const { page, go } = session;
    await go(`/crontasks/${NS}/${CRON_TASK}`);
    await page.getByLabel("Show in time zone").selectOption("Asia/Tokyo");
    await page.getByRole("list", { name: "Next runs, Asia/Tokyo" }).waitFor();
  });
});
