import { execFile } from "node:child_process";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { violations } from "./axe";
import { openContext } from "./browser";
import type { KubeObject } from "./cluster";
import { NS } from "./seed";
import { freePort } from "./server";
import { freshName, useBrowser } from "./session";

const EXECUTOR = "quay.io/kubeopencode/kubeopencode-agent-devbox:latest";

/** A Pod whose program answers with the request that it received. */
function listener(name: string, port: number): KubeObject {
  const program = `require("net").createServer((socket) => {
    let received = "";
    socket.on("error", () => {});
    socket.on("data", (data) => {
      received += data;
      if (!received.includes("\\r\\n\\r\\n")) return;
      socket.end("HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nConnection: close\\r\\n\\r\\n" + received);
    });
  }).listen(${port}, "127.0.0.1")`;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: NS, name },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: 0,
      containers: [{ name: "listener", image: EXECUTOR, command: [process.execPath, "-e", program] }],
    },
  };
}

/** A request of a program, which may send any Host header. */
function get(port: string, path: string, headers: Record<string, string>): Promise<IncomingMessage> {
  return new Promise((done, failed) => {
    request({ host: "127.0.0.1", port, path, headers }, (answer) => {
      answer.resume();
      done(answer);
    })
      .on("error", failed)
      .end();
  });
}

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

  test("the login link of the owner is valid once; then the page explains how to get another", async () => {
    const { page } = session;
    const { owner, loginLink } = inject("platform");
    expect(owner.map(({ httpOnly, sameSite, domain }) => ({ httpOnly, sameSite, domain }))).toEqual([
      { httpOnly: true, sameSite: "Strict", domain: new URL(loginLink).hostname },
    ]);
    session.expectedErrors = [401];
    const again = await page.goto(loginLink);
    expect(again?.status()).toBe(401);
    await login();
    await page.getByRole("alert").getByText("kubeopencode login --open").waitFor();
    expect(await violations(page)).toEqual([]);
  });

  test("`kubeopencode login` prints another link", async () => {
    const { page, context } = session;
    const { binary, directory } = inject("platform");
    const { stdout } = await promisify(execFile)(binary, ["login", "--state-dir", join(directory, "state")]);
    await page.goto(stdout.trim());
    await page.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor();
    await context.clearCookies();
  });

  test("the address of this machine leads to the page without revealing its host", async () => {
    const { page, url } = session;
    const { host, port } = new URL(url);
    await page.goto(`http://127.0.0.1:${port}/tasks`);
    await page.getByText("kubeopencode login --open").waitFor();
    expect(await page.content()).not.toContain(host);
  });

  test("a listener in a Pod on another port of this machine receives no cookie", async () => {
    const { cluster, url } = session;
    const port = await freePort();
    const pod = freshName("listener");
    await cluster.create(listener(pod, port));
    const context = await openContext(session.context.browser() as Browser);
    await context.addCookies(inject("platform").owner);
    const page = await context.newPage();
    await page.goto(url);
    await page.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor();
    // As a user follows a link to a program that the agent started, and as that program asks for more.
    for (const host of ["127.0.0.1", "localhost"]) {
      await expect
        .poll(
          async () =>
            page.goto(`http://${host}:${port}/`).then(
              (answer) => answer?.text(),
              () => undefined,
            ),
          {
            timeout: 60_000,
          },
        )
        .toMatch(/^GET /);
      const received = await page.evaluate(async () => (await fetch("/again", { credentials: "include" })).text());
      expect(received.toLowerCase()).toContain(`host: ${host}:${port}`);
      expect(received.toLowerCase()).not.toContain("cookie");
      expect(await page.evaluate(() => document.body.textContent)).not.toContain("kubeopencode-session");
    }
    await context.close();
    await cluster.call("DELETE", `/api/v1/namespaces/${NS}/pods/${pod}`);
  });

  test("a stolen cookie is refused at the address of this machine", async () => {
    const { url } = session;
    const { owner } = inject("platform");
    const cookie = owner.map(({ name, value }) => `${name}=${value}`).join("; ");
    const status = async (host: string) =>
      (await get(new URL(url).port, "/api/v1/whoami", { host, cookie })).statusCode;
    expect(await status(new URL(url).host)).toBe(200);
    expect(await status(`127.0.0.1:${new URL(url).port}`)).toBe(401);
    expect(await status("rebound.example")).toBe(403);
  });
});
