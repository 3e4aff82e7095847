import { describe, expect, test } from "vitest";
import { violations } from "./axe";
import { PHONE } from "./browser";
import { AGENT, NS, ours, TEMPLATE } from "./seed";
import { freshName, useBrowser, WORK } from "./session";

describe("lists and layout", () => {
  const session = useBrowser();

  test("filters apply while typing and are kept in the URL", WORK, async () => {
    const { page, go } = session;
    await go(`/tasks?namespace=${NS}`);
    await page.locator("[data-row='0'] a").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("a haiku");
    await page.waitForURL(/search=a\+haiku/);
    const onlyMatches = () => {
      const rows = [...document.querySelectorAll("[data-row]")];
      return rows.length === 1 && rows[0]?.textContent?.includes("demo/write-a-file");
    };
    await page.waitForFunction(onlyMatches);
    await page.reload();
    await page.waitForFunction(onlyMatches);
    await page.getByRole("button", { name: "Clear" }).click();
    await page.waitForURL((url) => !url.search.includes("search="));
    await page.getByLabel("Status").selectOption("Failed");
    await page.waitForURL(/phase=Failed/);
    await page.waitForFunction(
      () => {
        const rows = [...document.querySelectorAll("[data-row]")];
        return rows.length > 0 && rows.every((row) => row.textContent?.includes("Failed"));
      },
      undefined,
      WORK,
    );
    await page.getByLabel("Filter by labels").fill("kubeopencode.io/demo=false");
    await page.getByText("No matches").waitFor();
    await page.getByRole("button", { name: "Clear filters" }).click();
    await page.locator("[data-row='0'] a").first().waitFor();
    await page.getByLabel("Filter by title or name").fill("no-such-task");
    await page.getByText("No matches").waitFor();
  });

  test("a deletion in a list asks for confirmation and can be cancelled", async () => {
    const { page, go } = session;
    await go(`/tasks?namespace=${NS}&name=fails-on-purpose`);
    await page.getByRole("button", { name: "Delete fails-on-purpose", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Delete Task fails-on-purpose?" });
    await dialog.getByText("its log").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("link", { name: "This cannot work.", exact: true }).waitFor();
  });

  test("a column sorts both ways", async () => {
    const { page, go } = session;
    await go(`/tasks?namespace=${NS}`);
    const head = page.getByRole("columnheader", { name: "Name", exact: true });
    await head.getByRole("button").click();
    await page.waitForURL(/sort=name/);
    await page.locator("[role=columnheader][aria-sort=ascending]", { hasText: "Name" }).waitFor();
    await head.getByRole("button").click();
    await page.waitForURL(/sort=-name/);
    await page.locator("[role=columnheader][aria-sort=descending]", { hasText: "Name" }).waitFor();
  });

  test("j and k move through the rows, Enter opens one, g t goes back, ? lists the shortcuts", async () => {
    const { page, go } = session;
    // Only objects of the demo: other tests create Tasks concurrently.
    await go(`/tasks?namespace=${NS}&labelSelector=kubeopencode.io/demo=true`);
    await page.locator("[data-row='1'] a").first().waitFor();
    const focused = (row: number) =>
      page.waitForFunction((wanted) => document.activeElement?.closest(`[data-row='${wanted}']`), row);
    await page.keyboard.press("j");
    await focused(0);
    await page.keyboard.press("j");
    await focused(1);
    await page.keyboard.press("k");
    await focused(0);
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/tasks/${NS}/`));
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    await page.waitForURL(/\/tasks(\?|$)/);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor({ state: "detached" });
  });

  test("on a phone the navigation opens and closes", async () => {
    const { page, go } = session;
    await page.setViewportSize(PHONE);
    await go("/");
    const navigation = page.getByRole("dialog", { name: "Navigation" });
    await page.getByRole("button", { name: "Open navigation" }).click();
    await navigation.getByRole("link", { name: "Agents", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
    await navigation.waitFor({ state: "hidden" });
  });

  test("the selected theme is kept", async () => {
    const { page, go } = session;
    await go("/");
    await page.getByRole("button", { name: /^Theme: system/ }).click();
    await page.getByRole("button", { name: /^Theme: light/ }).click();
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    await expect.poll(background).toBe("rgb(14, 17, 22)");
    await page.reload();
    await expect.poll(background).toBe("rgb(14, 17, 22)");
    await page.getByRole("button", { name: /^Theme: dark/ }).click();
    await expect.poll(background).not.toBe("rgb(14, 17, 22)");
  });

  test("the namespace filters all pages and is kept in the URL", async () => {
    const { page, go } = session;
    await go("/tasks");
    await page.getByLabel("Namespace").selectOption(NS);
    await page.waitForURL(new RegExp(`namespace=${NS}`));
    await page.locator(`aside a[href='/agents?namespace=${NS}']`).click();
    await page.waitForURL(new RegExp(`agents.*namespace=${NS}`));
  });

  test("Ctrl-K opens an object, a page or an action by name", async () => {
    const { page, go } = session;
    await go("/");
    await page.keyboard.press("Control+k");
    const field = page.getByRole("combobox", { name: "Page, action or name of an object" });
    await field.fill("a haiku");
    const option = page.getByRole("option", { name: /Write a haiku and show it\..*write-a-file/, selected: true });
    await option.waitFor();
    expect(await field.getAttribute("aria-activedescendant")).toBe(await option.getAttribute("id"));
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/tasks/${NS}/write-a-file`));
    await page.getByRole("button", { name: "Go to a page or object" }).click();
    await field.fill("new task");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "New Task" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.press("Escape");
    await field.waitFor({ state: "detached" });
  });

  test("several Tasks are selected and deleted after one confirmation", WORK, async () => {
    const { page, go, cluster } = session;
    const prefix = freshName("many");
    for (const i of [1, 2, 3]) {
      await cluster.create(ours("Task", `${prefix}-${i}`, { agentRef: { name: "nobody" }, description: "Wait." }));
    }
    await go(`/tasks?namespace=${NS}&search=${prefix}`);
    await page.getByRole("checkbox", { name: `Select ${prefix}-3` }).check();
    await page.getByRole("toolbar", { name: "Selected Tasks" }).getByText("1 selected").waitFor();
    await page.getByRole("checkbox", { name: "Select 3 loaded rows" }).check();
    await page.getByRole("toolbar").getByText("3 selected").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole("toolbar").getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog", { name: "Delete 3 Tasks?" });
    await dialog.getByText(`${prefix}-2`).waitFor();
    expect(await violations(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Delete 3 Tasks" }).click();
    await session.toast("3 Tasks are being deleted.");
    await page.getByText("No matches").waitFor(WORK);
  });

  test("a template shows its model and all its Tasks, and a list names what a Task runs on", WORK, async () => {
    const { page, go } = session;
    await go(`/templates/${NS}/${TEMPLATE}`);
    await page.getByText(/^\d+ Agents?, [1-9]\d* Tasks?/).waitFor();
    await page.getByRole("group", { name: "Tasks using this template" }).getByRole("link").first().waitFor();
    const model = page.locator("dt", { hasText: /^Model$/ }).locator("+ dd");
    expect(await model.textContent()).not.toBe("–");
    await go(`/tasks?namespace=${NS}&search=a+haiku`);
    await page.locator("[data-row='0']", { hasText: `Template ${TEMPLATE}` }).waitFor();
    await page.getByLabel("Runs on").selectOption(`agent/${AGENT}`);
    await page.getByText("No matches").waitFor();
  });
});
