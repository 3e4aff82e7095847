import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Download } from "playwright-core";
import { describe, expect, test } from "vitest";
import { violations } from "./axe";
import { AGENT, ASKING_AGENT, NS, ours, TEMPLATE } from "./seed";
import { deleteShown, freshName, useBrowser, WORK } from "./session";

/** The bytes of a download. The browser runs in another process, whose files are not ours. */
async function content(download: Download): Promise<Buffer> {
  const path = join(mkdtempSync(join(tmpdir(), "download-")), "file");
  await download.saveAs(path);
  return readFileSync(path);
}

/** Real Pods and a real OpenCode; its model executes the [[directives]] in a prompt. */
describe("Tasks", () => {
  const session = useBrowser();
  const status = (text: string) => session.page.locator("h1", { hasText: text }).waitFor(WORK);
  const h1 = (name: string) => session.page.getByRole("heading", { level: 1, name }).waitFor();
  const tab = (name: string) => session.page.getByRole("tab", { name, exact: true }).click();

  test("a new user creates a Task, follows it and reads its changes", WORK, async () => {
    const { page, go } = session;
    await go("/");
    await page.getByRole("link", { name: "New Task" }).click();
    await h1("New Task");
    await page
      .getByLabel("Description")
      .fill('Take a note.\n[[write path=note.md text="buy milk\\nbuy bread\\n"]] [[say Noted.]]');
    // The namespace is preselected; only one of the two Agents must be selected.
    await page.getByLabel("Agent", { exact: true }).selectOption(AGENT);
    await page.getByRole("button", { name: "Create Task" }).click();
    await page.getByRole("heading", { level: 1, name: /^Take a note\. .*task-/ }).waitFor();
    await page.getByText("by owner").waitFor();
    // No reload from here on.
    await page.getByRole("log").getByText("[session]").waitFor(WORK);
    const transcript = page.getByRole("group", { name: "Session", exact: true });
    await transcript.getByText("Take a note.").waitFor(WORK);
    await status("Completed");
    await transcript.getByText("Noted.", { exact: true }).waitFor();
    await page.getByText("The log is complete").waitFor();
    await tab("Changes");
    await page.getByText("1 file changed, +2 −0").waitFor();
    await page.getByRole("group", { name: "Changes of note.md" }).getByText("buy bread").waitFor();
    expect(await violations(page)).toEqual([]);
    await tab("Overview");
    await page.getByText("Noted.", { exact: true }).waitFor();
  });

  test("the dashboard shows recent Tasks and failures", WORK, async () => {
    const { page, go } = session;
    await go("/");
    await page.locator(".recharts-surface").first().waitFor();
    await page.getByText("demo/write-a-file").waitFor();
    await page.getByRole("link", { name: AGENT }).first().waitFor();
    await page.getByText("Model error").first().waitFor(WORK);
  });

  test("a Task on a template shows log, search, download, session and changes", WORK, async () => {
    const { page, go } = session;
    await go(`/tasks/${NS}/write-a-file`);
    await status("Completed");
    const log = page.getByRole("log");
    await log.getByText("The haiku is in haiku.md.").waitFor();
    await page.getByText("The log is complete").waitFor();
    await page.getByLabel("Search in the log").fill("haiku");
    await page.locator("mark").first().waitFor();
    await page.getByText(/^1 of \d+$/).waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download the log" }).click(),
    ]);
    expect(download.suggestedFilename()).toBe("write-a-file.log");
    const conversation = page.getByRole("group", { name: "Session" });
    await conversation.getByText("Write a haiku").first().waitFor();
    await conversation.getByText("The haiku is in haiku.md.", { exact: true }).waitFor();
    await page.getByRole("tab", { name: "Changes" }).click();
    await page.getByRole("heading", { name: /haiku\.md/ }).waitFor();
    await page.getByRole("button", { name: "Side by side" }).click();
    expect(await violations(page)).toEqual([]);
    // Without a store, the patch is made of what the page shows.
    session.expectedErrors = [404];
    const [patch] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Download patch" }).click(),
    ]);
    expect(patch.suggestedFilename()).toBe("write-a-file-1.patch");
    expect((await content(patch)).toString()).toContain("haiku.md");
  });

  test("a Task leaves an artifact and outputs, which are browsed, read and downloaded", WORK, async () => {
    const { page, go, cluster } = session;
    const name = freshName("leaves");
    const description = [
      "Leave a report.",
      '[[write path=report/README.md text="# Findings\\n\\nAll **good**. <b>No</b> HTML.\\n"]]',
      '[[write path=report/src/main.rs text="fn main() {}\\n"]]',
      '[[bash cmd="echo answer=42 >> $KUBEOPENCODE_OUTPUTS"]]',
      "[[say Reported.]]",
    ].join("\n");
    await cluster.create(
      ours("Task", name, {
        templateRef: { name: TEMPLATE },
        description,
        artifacts: [{ name: "findings", paths: ["report/**"] }],
        outputs: ["answer"],
      }),
    );
    await go(`/tasks/${NS}/${name}?tab=artifacts`);
    await status("Completed");
    // No reload: the artifact appears when the run has ended.
    const tree = page.getByRole("tree", { name: "Files of findings" });
    await tree.getByRole("treeitem", { name: "report" }).click();
    await tree.getByRole("treeitem", { name: /^README\.md/ }).click();
    await page.getByRole("heading", { name: "Findings", exact: true }).waitFor();
    await page.getByText("<b>No</b> HTML.").waitFor();
    expect(await violations(page)).toEqual([]);
    await tree.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await tree.getByRole("treeitem", { name: /^main\.rs/ }).waitFor();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.getByRole("group", { name: "Content of report/src/main.rs" }).getByText("main").waitFor();
    const [one] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download report/src/main.rs" }).click(),
    ]);
    expect((await content(one)).toString()).toBe("fn main() {}\n");
    const [all] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download all" }).click(),
    ]);
    expect(all.suggestedFilename()).toBe(`${name}-findings.tar.zst`);
    // The first bytes of zstd.
    expect((await content(all)).subarray(0, 4).toString("hex")).toBe("28b52ffd");
    await page.getByRole("searchbox", { name: "Find files whose path begins with" }).fill("report/src");
    await page.getByRole("list", { name: "Found files" }).getByText("report/src/main.rs").waitFor();
    await tab("Overview");
    await page.getByRole("group", { name: "Outputs" }).getByRole("row", { name: "answer 42" }).waitFor();
    expect(await violations(page)).toEqual([]);
  });

  test("a failed Task shows the reason and the sources of its settings", WORK, async () => {
    const { page, go } = session;
    await go(`/tasks/${NS}/fails-on-purpose?tab=explain`);
    await status("Failed");
    await page.getByText("the model answered HTTP 401").first().waitFor();
    await page
      .getByRole("cell", { name: /agentImage/ })
      .first()
      .waitFor();
  });

  test("validation errors of the server are shown at their fields", async () => {
    const { page, go } = session;
    session.expectedErrors = [422];
    await go(`/tasks/create?namespace=${NS}&agent=${AGENT}`);
    await page.getByLabel("Description").fill("Do it.");
    await page.getByRole("button", { name: "Git repository" }).click();
    const repository = page.getByRole("textbox", { name: /^Repository/ });
    await repository.fill("github.com/team/project");
    await page.getByRole("alert").filter({ hasText: "The scheme is missing" }).waitFor();
    await repository.fill("");
    await page.getByRole("button", { name: "Validate" }).click();
    await page.getByText(/fields? (is|are) invalid/).waitFor();
    expect(await page.locator("[aria-invalid=true], [role=alert]").count()).toBeGreaterThan(0);
  });

  test("a running Task is stopped; a waiting Task is explained, edited and stopped", WORK, async () => {
    const { page, go, cluster } = session;
    const slow = freshName("slow");
    const next = freshName("next");
    await cluster.create(
      ours("Task", slow, { agentRef: { name: AGENT }, description: "[[delay 60s]] [[say Too late.]]" }),
    );
    await go(`/tasks/${NS}/${slow}`);
    await page.getByRole("log").getByText("[session]").waitFor(WORK);
    await cluster.create(ours("Task", next, { agentRef: { name: AGENT }, description: "[[say Never.]]" }));

    await go(`/tasks/${NS}/${next}?tab=explain`);
    await status("Queued");
    await page.getByRole("heading", { name: "Suggested actions" }).waitFor();
    await page.getByRole("link", { name: slow }).first().click();
    await h1(slow);
    await page.getByRole("link", { name: `Agent ${AGENT}` }).click();
    await h1(AGENT);
    await page.getByRole("listitem").filter({ hasText: slow }).filter({ hasText: "Running" }).waitFor();
    await page.getByRole("listitem").filter({ hasText: next }).filter({ hasText: "Queued" }).waitFor();
    await page.getByRole("link", { name: next }).click();
    await h1(next);
    await tab("YAML");
    // The editor offers what a user owns; the whole object is read-only.
    const editor = page.getByLabel(`YAML of Task ${next}`);
    await editor.getByText("priority: 0").waitFor();
    expect(await editor.textContent()).not.toMatch(/status:|resourceVersion|uid:/);
    await page.getByRole("button", { name: "Whole object" }).click();
    await page.getByLabel(`Whole YAML of Task ${next}`).getByText("resourceVersion").waitFor();
    await page.getByRole("button", { name: "Editable" }).click();
    await page.getByText("priority: 0").click();
    await page.keyboard.press("End");
    await page.keyboard.press("Backspace");
    await page.keyboard.type("9");
    await page.getByRole("button", { name: "Review changes" }).click();
    const dialog = page.getByRole("dialog", { name: "Save these changes?" });
    await dialog.getByText("priority: 9").waitFor();
    await dialog.getByText("Validated by the server.").waitFor();
    await dialog.getByRole("button", { name: "Save" }).click();
    await session.toast(/ saved\.$/);

    await go(`/tasks?namespace=${NS}&name=${next}`);
    await page.getByRole("button", { name: `Stop ${next}`, exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop the Task" }).click();
    await page.locator("[data-row='0']", { hasText: "Stopped" }).waitFor(WORK);
    await page.getByLabel("Status").selectOption("Completed");
    await page.getByText("No matches").waitFor();
    await page.getByLabel("Status").selectOption("Stopped");
    await page.locator("[data-row='0']", { hasText: next }).waitFor();

    await go(`/tasks/${NS}/${slow}`);
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Stop the Task" }).click();
    await status("Stopped");
    expect(await page.getByText("Too late.", { exact: true }).count()).toBe(0);
  });

  test("a Task is duplicated, and the copy is deleted", WORK, async () => {
    const { page, go } = session;
    const name = freshName("copy");
    await go(`/tasks/${NS}/hello`);
    await page.getByRole("button", { name: "Duplicate" }).click();
    await page.getByText("A copy of hello").waitFor();
    expect(await page.getByLabel("Description").inputValue()).toContain("Say hello.");
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByRole("button", { name: "Create Task" }).click();
    await h1(name);
    await deleteShown(session, "Task", new RegExp(`the Task ${name} and its status`));
    await page.waitForURL(/\/tasks(\?|$)/);
    await page.getByText(`${NS}/${name}`).waitFor({ state: "detached", ...WORK });
  });

  test("a finished Task runs again", WORK, async () => {
    const { page, go } = session;
    await go(`/tasks/${NS}/waits-its-turn`);
    await status("Completed");
    await page.getByRole("button", { name: "Run again" }).click();
    await session.toast("Rerun requested.");
    await tab("Overview");
    await page.locator("dt", { hasText: /^Run$/ }).locator("+ dd", { hasText: /^2$/ }).waitFor(WORK);
    await status("Completed");
    const runs = page.getByRole("group", { name: "Runs" });
    const both = ["2 Completed", "1 Completed"].map((run) => runs.getByRole("row", { name: new RegExp(`^${run}`) }));
    await Promise.all(both.map((row) => row.waitFor(WORK)));
    const [first] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download the log of run 1" }).click(),
    ]);
    expect(first.suggestedFilename()).toBe("waits-its-turn-1.log");
    expect(await violations(page)).toEqual([]);
    // A search finds text in the logs of both runs.
    await tab("Work");
    await page.getByText("The log is complete").waitFor();
    await page.getByLabel("Search in the log").fill("[SESSION]");
    await page.getByText(/^1 of \d+$/).waitFor();
    await page.getByRole("button", { name: /^Run 1: \d+ lines?$/ }).click();
    await page.getByRole("button", { name: /^Run 2: \d+ lines?$/ }).waitFor();
    expect(await page.getByLabel("Run", { exact: true }).inputValue()).toBe("1");
    await page.locator("mark").first().waitFor();
    expect(await violations(page)).toEqual([]);
  });

  test("a permission request is allowed, or rejected with a reason", WORK, async () => {
    const { page, go, cluster } = session;
    const ask = async (command: string): Promise<void> => {
      const name = freshName("asks");
      const description = `[[bash cmd="${command}"]] [[say Went on.]]`;
      await cluster.create(ours("Task", name, { agentRef: { name: ASKING_AGENT }, description }));
      await go(`/tasks/${NS}/${name}`);
    };
    const request = () => page.getByRole("region", { name: "Permission bash" });
    await ask("echo first");
    await request().waitFor(WORK);
    expect(await violations(page)).toEqual([]);
    await request().getByRole("button", { name: "Allow once" }).click();
    await request().waitFor({ state: "detached" });
    await status("Completed");

    await ask("echo second");
    await request().waitFor(WORK);
    await request().getByLabel("Reason for the rejection").fill("Not today.");
    await request().getByRole("button", { name: "Reject" }).click();
    await request().waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Run again" }).waitFor(WORK);
    await tab("Overview");
    const answers = page.getByRole("group", { name: "Approvals" });
    await answers.getByRole("row", { name: /bash echo second Rejected: Not today\. owner/ }).waitFor();
  });
});
