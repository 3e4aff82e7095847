import { describe, expect, test } from "vitest";
import { TOKEN } from "../dev/api";
import { useBrowser } from "./session";

const token = process.env.E2E_TOKEN ?? TOKEN;

// An open server has no login to test.
describe.skipIf(process.env.E2E_URL && !process.env.E2E_TOKEN)("signing in", () => {
  const session = useBrowser({ closed: true });

  test("a wrong token is refused, the right one leads to where one wanted to be", async () => {
    const { page, go } = session;
    await go("/agents");
    await page.getByRole("heading", { name: "Sign in to KubeOpenCode" }).waitFor();
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/agents");
  });

  test("a session that ends while the page is open leads to the login at the same address", async () => {
    const { page, go, context } = session;
    await go("/agents");
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
    await context.clearCookies();
    await page.getByRole("link", { name: "Graph" }).click();
    await page.getByRole("heading", { name: "Sign in to KubeOpenCode" }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/graph");
  });

  test("signing out ends the session", async () => {
    const { page, go } = session;
    await go("/");
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("button", { name: /^Signed in as/ }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to KubeOpenCode" }).waitFor();
  });
});
