import { describe, expect, test } from "vitest";
import { AGENT, NS, ours, TEMPLATE } from "./seed";
import { deleteShown, freshName, useBrowser, WORK } from "./session";

describe("Agents", () => {
  const session = useBrowser();
  const badge = (text: string) => session.page.locator("h1", { hasText: text }).waitFor(WORK);

  test("an Agent is created from a template, suspended, resumed and deleted", WORK, async () => {
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

  test("settings with their sources and connect commands are shown", async () => {
    const { page, go } = session;
    await go(`/agents/${NS}/${AGENT}`);
    await page.getByText(`kubeopencode agent attach ${AGENT} -n ${NS}`).waitFor();
    await page.getByRole("tab", { name: "Configuration" }).click();
    await page
      .getByRole("cell", { name: new RegExp(`AgentTemplate '${TEMPLATE}'`) })
      .first()
      .waitFor();
  });

  test("the terminal sends keys to OpenCode and shows its output", WORK, async () => {
    const { page, go } = session;
    await go(`/agents/${NS}/${AGENT}?tab=terminal`);
    const screen = page.locator(".xterm-rows");
    await screen.getByText("Ask anything").first().waitFor(WORK);
    await page.locator(".xterm-helper-textarea").focus();
    await page.keyboard.type("ahoy");
    await screen.getByText("ahoy").first().waitFor();
    // A colour set by the program, which the content security policy must not block.
    expect(await screen.locator("span[style*='color']").count()).toBeGreaterThan(0);
    await page.getByText("Connected.").waitFor();
  });

  test("a share link is created, opens only the terminal, and is revoked", WORK, async () => {
    const { page, go, context } = session;
    session.expectedErrors = [404];
    await go(`/agents/${NS}/${AGENT}?tab=share`);
    await page.getByRole("button", { name: "Create link" }).click();
    const link = page.locator("code", { hasText: "/s/" });
    await link.waitFor(WORK);
    const guest = await context.newPage();
    await guest.goto((await link.textContent()) ?? "");
    await guest.getByText("Connected.").waitFor(WORK);
    expect(await guest.getByRole("navigation").count()).toBe(0);
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("button", { name: "Create link" }).waitFor();
    // Revoking the link closes its terminals.
    await guest.getByRole("button", { name: "Reconnect" }).waitFor({ timeout: 30_000 });
    await guest.close();
    await go("/s/no-such-token");
    await page.getByText("Invalid link").waitFor();
  });

  test("a node of the graph links to its Agent", async () => {
    const { page, go } = session;
    await go(`/graph?namespace=${NS}`);
    const node = page.getByRole("link", { name: new RegExp(`^Agent ${AGENT}`) });
    await node.hover();
    await node.click();
    await page.waitForURL(new RegExp(`/agents/${NS}/${AGENT}`));
  });

  test("a conflicting save is rejected and can be repeated", async () => {
    const { page, go, cluster } = session;
    session.expectedErrors = [409];
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
    await dialog.getByText("Validated by the server.").waitFor();
    await cluster.patch(object, { spec: { profile: "theirs" } });
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("Conflict: someone else changed the object").waitFor();
    await dialog.getByRole("button", { name: "Keep editing" }).click();
    await page.getByRole("button", { name: "Load the new version" }).click();
    await page.getByText("profile: theirs").first().waitFor();
    const again = await review("ours");
    await again.getByText("Validated by the server.").waitFor();
    await again.getByRole("button", { name: "Save" }).click();
    await session.toast(/ saved\.$/);
    await page.getByText("profile: ours").first().waitFor();
  });
});
