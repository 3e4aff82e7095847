import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { violations } from "./axe";
import { CLIENT, type Person, Provider } from "./provider";
import { NS } from "./seed";
import { freePort, OwnServer } from "./server";
import { useBrowser } from "./session";

const ANNA: Person = { sub: "1", email: "anna@example.com", email_verified: true, groups: ["devs"] };

describe("signing in with an identity provider", () => {
  const session = useBrowser({ signedOut: true });
  const provider = new Provider(ANNA);
  let server: OwnServer;
  const enter = () => session.page.getByRole("link", { name: "Sign in with Acme" }).click();
  const choose = (answer: "Continue" | "Cancel") => session.page.getByRole("link", { name: answer }).click();

  beforeAll(async () => {
    await provider.listen();
    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    const oidc = ["--oidc-issuer", provider.issuer, "--oidc-client-id", CLIENT, "--oidc-name", "Acme"];
    server = new OwnServer(port, ["--base-url", base, ...oidc]);
    session.url = server.url;
    await session.cluster.letSeeTasks({ kind: "Group", name: "oidc:devs" }, NS);
    await server.start();
  });
  afterAll(async () => {
    await server.kill();
    provider.close();
  });

  test("the login redirects back to the requested page, with the permissions of the user", async () => {
    const { page, go } = session;
    session.expectedErrors = [401, 403];
    await go(`/tasks?namespace=${NS}&name=hello`);
    await page.getByRole("link", { name: "Sign in with Acme" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await enter();
    await choose("Continue");
    await page.getByRole("link", { name: "Say hello.", exact: true }).waitFor();
    expect(page.url()).toBe(`${server.url}/tasks?namespace=${NS}&name=hello`);
    await page.getByRole("link", { name: "Say hello.", exact: true }).click();
    await page.getByRole("button", { name: "Duplicate", disabled: true }).waitFor();

    await page.getByRole("button", { name: "Signed in as oidc:anna@example.com" }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByRole("link", { name: "Sign in with Acme" }).waitFor();
  });

  test("a denied login and an unusable user name are explained, and the login can be repeated", async () => {
    const { page, go } = session;
    session.expectedErrors = [401, 403];
    await go("/agents");
    await enter();
    await choose("Cancel");
    await page.getByRole("alert").filter({ hasText: "The identity provider denied the sign-in." }).waitFor();
    provider.person = { sub: "2" };
    await enter();
    await choose("Continue");
    await page.getByRole("alert").filter({ hasText: "no usable user name" }).waitFor();
    provider.person = ANNA;
    await enter();
    await choose("Continue");
    await page.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor();
  });
});
