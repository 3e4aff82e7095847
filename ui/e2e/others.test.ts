import { describe, expect, test } from "vitest";
import { freshName, NAMES } from "./names";
import { useBrowser } from "./session";

const { namespace: ns } = NAMES;

describe("the other kinds", () => {
  const session = useBrowser();

  test("a CronTask is created, triggered, suspended and resumed", async () => {
    const { page, go } = session;
    const name = freshName("cron");
    await go(`/crontasks/create?namespace=${ns}&agent=${NAMES.agent}`);
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByRole("button", { name: "Every day at 9" }).click();
    await page.getByText("09:00").first().waitFor();
    await page.getByLabel("Description").fill("Look for outdated dependencies.");
    await page.getByRole("button", { name: "Create CronTask" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByRole("button", { name: "Run now" }).click();
    await page.getByRole("group", { name: "Runs so far" }).getByRole("link").first().waitFor();
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.locator("h1", { hasText: "Suspended" }).waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Suspend" }).waitFor();
  });

  test("a bad schedule is told while it is typed", async () => {
    const { page, go } = session;
    await go(`/crontasks/create?namespace=${ns}`);
    await page.getByLabel("Schedule").fill("every day");
    await page.getByRole("alert").first().waitFor();
    expect(await page.getByLabel("Schedule").getAttribute("aria-invalid")).toBe("true");
  });

  test("the runs of a CronTask are told in another zone", async () => {
    const { page, go } = session;
    await go(`/crontasks/${ns}/${NAMES.cronTask}`);
    await page.getByLabel("Show in time zone").selectOption("Asia/Tokyo");
    await page.getByRole("list", { name: "Next runs, Asia/Tokyo" }).waitFor();
  });

  test("an Agent is created from a template and shown", async () => {
    const { page, go } = session;
    const name = freshName("agent");
    await go(`/agents/create?namespace=${ns}&template=${NAMES.template}`);
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByLabel("Profile").fill("Made by a test");
    await page.getByRole("button", { name: "Create Agent" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByText("Made by a test").waitFor();
  });

  test("an Agent shows the origin of its settings, its queue and commands", async () => {
    const { page, go } = session;
    await go(`/agents/${ns}/${NAMES.agent}`);
    await page.getByText(`kubeopencode agent attach ${NAMES.agent} -n ${ns}`).waitFor();
    await page.getByRole("tab", { name: "Configuration" }).click();
    await page
      .getByRole("cell", { name: /AgentTemplate|built-in/ })
      .first()
      .waitFor();
  });

  test("a terminal takes keys and shows what comes back", async () => {
    const { page, go } = session;
    await go(`/agents/${ns}/${NAMES.agent}?tab=terminal`);
    await page.getByText("Connected.").waitFor({ timeout: 20_000 });
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type("hello");
    await page.locator(".xterm-rows").getByText("hello").waitFor();
  });

  test("a share link is made, opens a terminal without the rest of the page, and is revoked", async () => {
    const { page, go, context } = session;
    await go(`/agents/${ns}/${NAMES.agent}?tab=share`);
    await page.getByRole("button", { name: "Make a link" }).click();
    const link = await page.locator("code", { hasText: "/s/" }).textContent();
    const guest = await context.newPage();
    await guest.goto(link ?? "");
    await guest.getByText("Connected.").waitFor({ timeout: 20_000 });
    expect(await guest.getByRole("navigation").count()).toBe(0);
    await guest.close();
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("button", { name: "Make a link" }).waitFor();
    await go("/s/no-such-token");
    await page.getByText("This link does not work").waitFor();
  });

  test("a template is assembled from a registry", async () => {
    const { page, go } = session;
    const name = freshName("assembled");
    await go(`/registries/${NAMES.registryNamespace}/${NAMES.registry}/assemble`);
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByRole("radio").first().check();
    await page.getByRole("checkbox").first().check();
    await page.getByLabel("YAML of the new AgentTemplate").getByText("executorImage").waitFor();
    await page.getByRole("button", { name: "Create AgentTemplate" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
  });

  test("a Model is created by YAML and deleted", async () => {
    const { page, go } = session;
    await go(`/kinds/models/create?namespace=${ns}`);
    await page.getByText("my-model").waitFor();
    await page.getByRole("button", { name: "Check only" }).click();
    await page.getByText("Valid: the server would accept it.").waitFor();
    await page.getByRole("button", { name: "Create Model" }).click();
    await page.getByRole("heading", { level: 1, name: "my-model" }).waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete Model" }).click();
    await page.waitForURL(/\/models/);
  });

  test("the graph lights up what belongs together and leads to it", async () => {
    const { page, go } = session;
    await go(`/graph?namespace=${ns}`);
    const node = page.getByRole("link", { name: new RegExp(`^Agent ${NAMES.agent}`) });
    await node.hover();
    await node.click();
    await page.waitForURL(new RegExp(`/agents/${ns}/${NAMES.agent}`));
  });

  test("the theme is chosen and stays", async () => {
    const { page, go } = session;
    await go("/");
    await page.getByRole("button", { name: /^Theme: system/ }).click();
    await page.getByRole("button", { name: /^Theme: light/ }).click();
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
    await page.reload();
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe("dark");
  });

  test("the namespace narrows everything and stays in the address", async () => {
    const { page, go } = session;
    await go("/tasks");
    await page.getByLabel("Namespace").selectOption(ns);
    await page.waitForURL(new RegExp(`namespace=${ns}`));
    await page.getByRole("link", { name: "Agents", exact: true }).click();
    await page.waitForURL(new RegExp(`agents.*namespace=${ns}`));
  });
});
