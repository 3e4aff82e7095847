import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { START_MS } from "./limits";
import { NS, ours } from "./seed";
import { freePort, OwnServer } from "./server";
import { freshName, useBrowser } from "./session";

describe("a server that restarts", () => {
  const session = useBrowser({ signedOut: true });
  let server: OwnServer;
  let token: string;

  beforeAll(async () => {
    // With the same key, sessions survive a restart.
    const key = join(inject("platform").directory, "session-key");
    writeFileSync(key, randomBytes(32));
    server = new OwnServer(await freePort(), ["--session-key-file", key]);
    session.url = server.url;
    token = await session.cluster.tokenOf(NS, "e2e-restart");
    await session.cluster.makeAdmin({ kind: "ServiceAccount", namespace: NS, name: "e2e-restart" }, NS);
    await server.start();
  });
  afterAll(() => server.kill());

  test("the content stays, a notice is shown, and updates resume after the reconnect", {
    timeout: 2 * START_MS,
  }, async () => {
    const { page, go, cluster } = session;
    session.expectedErrors = [0, 401];
    const name = freshName("meanwhile");
    await go(`/tasks?namespace=${NS}`);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("link", { name: "Say hello.", exact: true }).waitFor();

    await server.kill();
    const notice = page.getByText("Reconnecting: data may be out of date");
    await notice.waitFor();
    expect(await page.getByRole("link", { name: "Say hello.", exact: true }).count()).toBe(1);

    await cluster.create(ours("Task", name, { agentRef: { name: "nobody" }, description: name }));
    await server.start();
    await notice.waitFor({ state: "detached", timeout: 30_000 });
    await page.getByRole("link", { name, exact: true }).waitFor();
  });
});
