import { describe, expect, test } from "vitest";
import { violations } from "./axe";
import { freshName } from "./names";
import { useBrowser } from "./session";

/**
 * The real product with its demo (`npm run e2e:product`): real Pods, a real OpenCode, and a model that does what the
 * markers in a prompt say. `E2E_LOGIN` is the link to log in with; it works once.
 */
describe.skipIf(!process.env.E2E_LOGIN)("the product with its demo", () => {
  const session = useBrowser({ strict: true });
  const WORK = 120_000;

  async function isAccessible(): Promise<void> {
    await session.page.locator("[aria-label^='Loading']").first().waitFor({ state: "detached" });
    await session.page.waitForTimeout(150);
    expect(await violations(session.page)).toEqual([]);
  }

  /** Fills the form of a new Task on the Agent and leads to its page. */
  async function createTask(prefix: string, description: string): Promise<string> {
    const { page, go } = session;
    const name = freshName(prefix);
    await go("/agents/demo/helper");
    await page.getByRole("link", { name: "New Task" }).first().click();
    await page.getByRole("heading", { level: 1, name: "New Task" }).waitFor();
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByLabel("Description").fill(description);
    await isAccessible();
    await page.getByRole("button", { name: "Create Task" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    return name;
  }

  test("the dashboard shows what the demo did", async () => {
    const { page, go } = session;
    await go("/");
    await page.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor();
    await page.locator(".recharts-surface").first().waitFor();
    await page.getByRole("link", { name: "write-a-file" }).waitFor();
    await page.getByRole("link", { name: "helper" }).first().waitFor();
    await page.getByText("Model error").first().waitFor();
    await isAccessible();
  });

  test("a Task on a template shows its log", async () => {
    const { page, go } = session;
    await go("/tasks/demo/write-a-file");
    const log = page.getByRole("log");
    await log.getByText("cat haiku.md").waitFor();
    await log.getByText("The haiku is in haiku.md.").waitFor();
    await page.getByText("The log is complete").waitFor();
    await page.locator("h1", { hasText: "Completed" }).waitFor();
    await isAccessible();
  });

  test("a Task that failed says why", async () => {
    const { page, go } = session;
    await go("/tasks/demo/fails-on-purpose?tab=explain");
    await page.getByText("the model answered HTTP 401").first().waitFor();
    await page
      .getByRole("cell", { name: /agentImage/ })
      .first()
      .waitFor();
    await isAccessible();
  });

  test("a Task on an Agent shows its transcript", async () => {
    const { page, go } = session;
    await go("/tasks/demo/on-the-agent");
    const transcript = page.getByRole("group", { name: "Session" });
    await transcript.getByText("Think for a while.").waitFor();
    await transcript.getByText("uname -s").first().waitFor();
    await transcript.getByText("This machine runs Linux.", { exact: true }).waitFor();
    await isAccessible();
  });

  test("the YAML of a Task is the whole object", async () => {
    const { page, go } = session;
    await go("/tasks/demo/write-a-file?tab=yaml");
    const yaml = page.getByLabel("YAML of Task write-a-file");
    await yaml.getByText("kubeopencode.io/v1alpha1").first().waitFor();
    await yaml.getByText("templateRef:").first().waitFor();
    await isAccessible();
  });

  test("a Task that is created in the form is seen to complete, without a reload", { timeout: WORK }, async () => {
    const { page } = session;
    await createTask("hello", "[[say Hello.]]");
    await page.locator("h1", { hasText: "Completed" }).waitFor({ timeout: WORK });
    await page.getByRole("log").getByText("Hello.", { exact: true }).waitFor();
    await page.getByText("The log is complete").waitFor();
    await isAccessible();
  });

  test("a Task at work is stopped", { timeout: WORK }, async () => {
    const { page } = session;
    await createTask("slow", "[[delay 60s]] [[say Too late.]]");
    await page.locator("h1", { hasText: "Running" }).waitFor({ timeout: WORK });
    await page.getByRole("log").getByText("[session]").waitFor({ timeout: WORK });
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop the Task" }).click();
    await page.locator("h1", { hasText: "Stopped" }).waitFor({ timeout: WORK });
    expect(await page.getByText("Too late.", { exact: true }).count()).toBe(0);
    await isAccessible();
  });
});
