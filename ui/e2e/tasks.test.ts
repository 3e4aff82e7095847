import { describe, expect, test } from "vitest";
import { freshName, NAMES } from "./names";
import { useBrowser } from "./session";

const { namespace: ns } = NAMES;

describe("Tasks", () => {
  const session = useBrowser();
  const toast = (text: string | RegExp) => session.page.getByRole("status").filter({ hasText: text }).first().waitFor();

  test("one is created in the form and can be watched until it ends", async () => {
    const { page, go } = session;
    const name = freshName("e2e");
    await go(`/tasks/create?namespace=${ns}`);
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByLabel("Description").fill("Say hello.");
    await page.locator("select", { hasText: NAMES.agent }).selectOption(NAMES.agent);
    await page.getByLabel("YAML of the new Task").getByText("Say hello.").waitFor();
    await page.getByRole("button", { name: "Create Task" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    // No reload: the feed of changes and the log bring everything.
    await page.getByText("Running", { exact: true }).first().waitFor();
    await page.getByRole("log").getByText("[session]").waitFor();
    await page.locator("h1", { hasText: "Completed" }).waitFor({ timeout: 25_000 });
    await page.getByText("The log is complete").waitFor();
    await page.getByRole("button", { name: "Run again" }).waitFor();
  });

  test("problems that the server finds stand at their fields", async () => {
    const { page, go } = session;
    await go(`/tasks/create?namespace=${ns}&agent=${NAMES.agent}`);
    await page.getByLabel("Description").fill("Do it.");
    await page.getByRole("button", { name: "Git repository" }).click();
    await page.getByRole("button", { name: "Check only" }).click();
    await page.getByText(/need a look|needs a look/).waitFor();
    expect(await page.locator("[aria-invalid=true], [role=alert]").count()).toBeGreaterThan(0);
  });

  test("the list is filtered by what is typed, and the address remembers it", async () => {
    const { page, go } = session;
    await go(`/tasks?namespace=${ns}`);
    await page.locator("[data-row='0'] a").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type(NAMES.waitingTask);
    await page.waitForURL(/name=/);
    const onlyMatches = (name: string) => {
      const rows = [...document.querySelectorAll("[data-row]")];
      return rows.length > 0 && rows.every((row) => row.querySelector("a")?.textContent?.includes(name));
    };
    await page.waitForFunction(onlyMatches, NAMES.waitingTask);
    await page.reload();
    await page.waitForFunction(onlyMatches, NAMES.waitingTask);
    await page.getByRole("button", { name: "Clear" }).click();
    await page.waitForURL((url) => !url.search.includes("name="));
  });

  test("the list asks before it deletes, and a refusal to go on deletes nothing", async () => {
    const { page, go } = session;
    await go(`/tasks?namespace=${ns}&name=${NAMES.waitingTask}&sort=name`);
    await page.getByRole("button", { name: `Delete ${NAMES.waitingTask}`, exact: true }).click();
    const dialog = page.getByRole("dialog", { name: `Delete Task ${NAMES.waitingTask}?` });
    await dialog.getByText("its log").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("link", { name: NAMES.waitingTask, exact: true }).waitFor();
  });

  test("a column sorts both ways", async () => {
    const { page, go } = session;
    await go(`/tasks?namespace=${ns}`);
    const head = page.getByRole("columnheader", { name: "Name", exact: true });
    await head.getByRole("button").click();
    await page.waitForURL(/sort=name/);
    await page.locator("[role=columnheader][aria-sort=ascending]", { hasText: "Name" }).waitFor();
    await head.getByRole("button").click();
    await page.waitForURL(/sort=-name/);
    await page.locator("[role=columnheader][aria-sort=descending]", { hasText: "Name" }).waitFor();
  });

  test("j and k move through the rows, Enter opens one, g t leads back", async () => {
    const { page, go } = session;
    await go(`/tasks?namespace=${ns}`);
    await page.locator("[data-row='1'] a").first().waitFor();
    await page.keyboard.press("j");
    await page.waitForFunction(() => document.activeElement?.closest("[data-row='0']"));
    await page.keyboard.press("j");
    await page.waitForFunction(() => document.activeElement?.closest("[data-row='1']"));
    await page.keyboard.press("k");
    await page.waitForFunction(() => document.activeElement?.closest("[data-row='0']"));
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/tasks/${ns}/`));
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    await page.waitForURL(/\/tasks(\?|$)/);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
  });

  test("the log can be searched, and the session shows what was changed", async () => {
    const { page, go } = session;
    await go(`/tasks/${ns}/${NAMES.finishedTask}`);
    await page.getByRole("log").getByText("[session]").waitFor();
    await page.getByLabel("Search in the log").fill("login");
    await page.locator("mark").first().waitFor();
    await page.getByText(/^1 of \d+$/).waitFor();
    await page.getByRole("group", { name: /^Change of/ }).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download the log" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`${NAMES.finishedTask}.log`);
  });

  test("a waiting Task says why it waits and what to do", async () => {
    const { page, go } = session;
    await go(`/tasks/${ns}/${NAMES.waitingTask}?tab=explain`);
    await page.getByText("because").first().waitFor();
    await page.getByRole("heading", { name: "What you can do" }).waitFor();
    await page
      .getByRole("cell", { name: /executorImage/ })
      .first()
      .waitFor();
  });

  test("a permission is answered", async () => {
    const { page, go } = session;
    await go(`/tasks/${ns}/${NAMES.askingTask}`);
    const request = page.getByRole("region", { name: /^Permission/ });
    await request.waitFor();
    await request.getByRole("button", { name: "Allow once" }).click();
    await request.waitFor({ state: "detached" });
  });

  test("a changed YAML is shown as a difference before it is saved", async () => {
    const { page, go } = session;
    await go(`/tasks/${ns}/${NAMES.waitingTask}?tab=yaml`);
    await page.getByText("description:").click();
    await page.keyboard.press("Home");
    await page.keyboard.type("priority: 9");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Review changes" }).click();
    const dialog = page.getByRole("dialog", { name: "Save these changes?" });
    await dialog.getByText("priority: 9").waitFor();
    await dialog.getByText("it is valid").waitFor();
    await dialog.getByRole("button", { name: "Save" }).click();
    await toast(/was saved/);
  });

  test("a Task is duplicated, stopped and deleted", async () => {
    const { page, go } = session;
    await go(`/tasks/${ns}/${NAMES.finishedTask}`);
    await page.getByRole("button", { name: "Duplicate" }).click();
    await page.getByText(`A copy of ${NAMES.finishedTask}`).waitFor();
    const name = freshName("copy");
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.waitForFunction(() => (document.querySelector("textarea")?.value ?? "") !== "");
    await page.getByRole("button", { name: "Create Task" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop the Task" }).click();
    await page.locator("h1", { hasText: "Stopped" }).waitFor({ timeout: 20_000 });
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(`the Task ${name} and its status`).waitFor();
    await dialog.getByRole("button", { name: "Delete Task" }).click();
    await page.waitForURL(/\/tasks(\?|$)/);
  });

  test("a Task runs again", async () => {
    const { page, go } = session;
    await go(`/tasks/${ns}/${NAMES.finishedTask}`);
    await page.getByRole("button", { name: "Run again" }).click();
    await page.getByRole("button", { name: "Stop" }).waitFor();
  });
});
