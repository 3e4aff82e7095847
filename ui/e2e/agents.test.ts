import { describe, expect, test } from "vitest";
import { AGENT, NS, ours, TEMPLATE } from "./seed";
import { deleteShown, freshName, useBrowser, WORK } from "./session";

describe("Agents", () => {
  const session = useBrowser();
  const badge = (text: string) => session.page.locator("h1", { hasText: text }).waitFor(WORK);

  test("one is made from a template, rests, is woken and is deleted", WORK, async () => {
    const { page, go } = session;
    const name = freshName("agent");
    await go(`/templates/${NS}/${TEMPLATE}`);
    await page.getByRole("link", { name: "New Agent" }).click();
    await page.getByRole("textbox", { name: /^Name/ }).first().fill(name);
    await page.getByLabel("Profile").fill("Made by a test");
    await page.getByRole("button", { name: "Create Agent" }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.getByText("Made by a test").first().waitFor();
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Suspend" }).click();
    await badge("Suspended");
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Suspend" }).waitFor();
    await deleteShown(session, "Agent", new RegExp(`the Agent ${name} with its Deployment`));
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
  });

  test("it shows the origin of its settings and the commands that reach it", async () => {
    const { page, go } = session;
    await go(`/agents/${NS}/${AGENT}`);
    await page.getByText(`kubeopencode agent attach ${AGENT} -n ${NS}`).waitFor();
    await page.getByRole("tab", { name: "Configuration" }).click();
    await page
      .getByRole("cell", { name: new RegExp(`AgentTemplate '${TEMPLATE}'`) })
      .first()
      .waitFor();
  });

  test("its terminal is a real one: keys go to OpenCode and come back", WORK, async () => {
    const { page, go } = session;
    await go(`/agents/${NS}/${AGENT}?tab=terminal`);
    const screen = page.locator(".xterm-rows");
    await screen.getByText("Ask anything").first().waitFor(WORK);
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type("ahoy");
    await screen.getByText("ahoy").first().waitFor();
    // A colour that the program chose, which the page's policy must not keep from the cell.
    expect(await screen.locator("span[style*='color']").count()).toBeGreaterThan(0);
    await page.getByText("Connected.").waitFor();
  });

  test("a share link is made, opens the terminal and nothing else, and is revoked", WORK, async () => {
    const { page, go, context } = session;
    session.refusals = [404];
    await go(`/agents/${NS}/${AGENT}?tab=share`);
    await page.getByRole("button", { name: "Make a link" }).click();
    const link = page.locator("code", { hasText: "/s/" });
    await link.waitFor(WORK);
    const guest = await context.newPage();
    await guest.goto((await link.textContent()) ?? "");
    await guest.getByText("Connected.").waitFor(WORK);
    expect(await guest.getByRole("navigation").count()).toBe(0);
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("button", { name: "Make a link" }).waitFor();
    // A revoked link ends what was opened by it.
    await guest.getByRole("button", { name: "Connect again" }).waitFor({ timeout: 30_000 });
    await guest.close();
    await go("/s/no-such-token");
    await page.getByText("This link does not work").waitFor();
  });

  test("the graph leads from a template to its Agent", async () => {
    const { page, go } = session;
    await go(`/graph?namespace=${NS}`);
    const node = page.getByRole("link", { name: new RegExp(`^Agent ${AGENT}`) });
    await node.hover();
    await node.click();
    await page.waitForURL(new RegExp(`/agents/${NS}/${AGENT}`));
  });

  test("a save that somebody else overtook is refused, and can be made anew", async () => {
    const { page, go, cluster } = session;
    session.refusals = [409];
    const name = freshName("edited");
    const object = ours("Agent", name, { profile: "first", suspend: true, templateRef: { name: TEMPLATE } });
    await cluster.create(object);
    const review = async (profile: string) => {
      await page
        .getByText(/^ *profile: /)
        .first()
        .click();
      await page.keyboard.press("End");
      await page.keyboard.press("Shift+Home");
      await page.keyboard.insertText(`profile: ${profile}`);
      await page.getByRole("button", { name: "Review changes" }).click();
      return page.getByRole("dialog", { name: "Save these changes?" });
    };
    await go(`/agents/${NS}/${name}?tab=yaml`);
    await page.getByText("profile: first").first().waitFor();
    const dialog = await review("mine");
    await dialog.getByText("it is valid").waitFor();
    await cluster.patch(object, { spec: { profile: "theirs" } });
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("Somebody else saved it meanwhile").waitFor();
    await dialog.getByRole("button", { name: "Go on editing" }).click();
    await page.getByRole("button", { name: "Load the new version" }).click();
    await page.getByText("profile: theirs").first().waitFor();
    const again = await review("ours");
    await again.getByText("it is valid").waitFor();
    await again.getByRole("button", { name: "Save" }).click();
    await session.toast(/was saved/);
    await page.getByText("profile: ours").first().waitFor();
  });
});
