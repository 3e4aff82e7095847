import { beforeAll, describe, expect, inject, test } from "vitest";
import { violations } from "./axe";
import { NS } from "./seed";
import { useBrowser } from "./session";

describe("signing in", () => {
  const session = useBrowser({ signedOut: true });
  const login = () => session.page.getByRole("heading", { name: "Sign in to KubeOpenCode" }).waitFor();
  let everything: string;
  let tasksOnly: string;

  async function signIn(token: string): Promise<void> {
    await login();
    await session.page.getByLabel("Token").fill(token);
    await session.page.getByRole("button", { name: "Sign in", exact: true }).click();
  }

  beforeAll(async () => {
    const { cluster } = session;
    everything = await cluster.tokenOf(NS, "e2e-everything");
    await cluster.makeAdmin({ kind: "ServiceAccount", namespace: NS, name: "e2e-everything" });
    tasksOnly = await cluster.tokenOf(NS, "e2e-tasks-only");
    await cluster.letSeeTasks({ kind: "ServiceAccount", namespace: NS, name: "e2e-tasks-only" }, NS);
  });

  test("a wrong token is rejected, a valid one opens the requested page", async () => {
    const { page, go } = session;
    session.expectedErrors = [401];
    await go("/agents");
    await login();
    expect(await violations(page)).toEqual([]);
    await signIn("wrong");
    await page.getByRole("alert").waitFor();
    await signIn(everything);
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/agents");
  });

  test("signing out ends the session", async () => {
    const { page, go } = session;
    session.expectedErrors = [401];
    await go("/");
    await page.getByRole("button", { name: /^Signed in as .*e2e-everything/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await login();
  });

  test("when the session ends, the login is shown at the same URL", async () => {
    const { page, go, context } = session;
    session.expectedErrors = [401];
    await go("/agents");
    await signIn(everything);
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
    await context.clearCookies();
    await page.getByRole("link", { name: "Graph" }).click();
    await login();
    expect(new URL(page.url()).pathname).toBe("/graph");
  });

  test("a user with read access to Tasks sees them and cannot change them", async () => {
    const { page, go, context } = session;
    session.expectedErrors = [401, 403];
    await go(`/tasks?namespace=${NS}`);
    await signIn(tasksOnly);
    await page.getByRole("link", { name: "Say hello.", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "hello" }).waitFor();
    // The signed-in user is visible without opening the menu.
    await page
      .getByRole("button", { name: /^Signed in as/ })
      .getByText("e2e-tasks-only")
      .waitFor();
    await page.getByRole("button", { name: "Duplicate", disabled: true }).waitFor();
    await page.getByRole("button", { name: /^(Stop|Run again)$/, disabled: true }).waitFor();
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Delete", disabled: true }).waitFor();
    await page.keyboard.press("Escape");

    await go(`/agents?namespace=${NS}`);
    await page.getByRole("heading", { name: "Access denied" }).waitFor();
    expect(await violations(page)).toEqual([]);

    // The server rejects requests that the page does not offer, and the page shows the message.
    await go(`/tasks/create?namespace=${NS}&agent=helper`);
    await page.getByLabel("Description").fill("Do it anyway.");
    await page.getByRole("button", { name: "Create Task" }).click();
    await page
      .getByRole("alert")
      .filter({ hasText: /may not|cannot|forbidden|not allowed/i })
      .first()
      .waitFor();
    await context.clearCookies();
  });

  test("the login link of the owner is valid once", async () => {
    const { owner, loginLink } = inject("platform");
    expect(owner.map((cookie) => cookie.httpOnly)).toContain(true);
    const again = await session.context.request.get(loginLink, { maxRedirects: 0 });
    expect(again.status()).toBe(401);
  });
});
