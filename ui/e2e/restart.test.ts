import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { ended } from "./platform";
import { NS, ours } from "./seed";
import { freshName, useBrowser } from "./session";

/** A port that nobody uses now. */
function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address && typeof address === "object" ? done(address.port) : failed(new Error("no port"))));
    });
  });
}

/** The page's server as a process of its own, which can die while everything else goes on. */
describe("a server that restarts", () => {
  const session = useBrowser({ signedOut: true });
  let server: ChildProcess;
  let port: number;
  let token: string;

  async function start(): Promise<void> {
    const { binary, directory, kubeconfig } = inject("platform");
    const words = ["--address", `127.0.0.1:${port}`, "--session-key-file", join(directory, "session-key")];
    server = spawn(binary, ["server", ...words, "--log", "warn"], {
      stdio: ["ignore", "inherit", "inherit"],
      env: { ...process.env, KUBECONFIG: kubeconfig },
    });
    for (let left = 300; ; left -= 1) {
      const answer = await fetch(`${session.url}/ready`).catch(() => undefined);
      if (answer?.ok) return;
      if (left === 0 || server.exitCode !== null) throw new Error("The server does not start");
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  beforeAll(async () => {
    port = await freePort();
    session.url = `http://127.0.0.1:${port}`;
    writeFileSync(join(inject("platform").directory, "session-key"), randomBytes(32));
    token = await session.cluster.tokenOf(NS, "e2e-restart");
    const rbac = "rbac.authorization.k8s.io";
    await session.cluster.create({
      apiVersion: `${rbac}/v1`,
      kind: "RoleBinding",
      metadata: { namespace: NS, name: "e2e-restart" },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "cluster-admin" },
      subjects: [{ kind: "ServiceAccount", namespace: NS, name: "e2e-restart" }],
    });
    await start();
  });
  afterAll(async () => {
    server?.kill("SIGKILL");
    if (server) await ended(server);
  });

  test("what was shown stays, the page says that it waits, and is live again by itself", async () => {
    const { page, go, cluster } = session;
    session.refusals = [0, 401];
    const name = freshName("meanwhile");
    await go(`/tasks?namespace=${NS}`);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByRole("link", { name: "hello", exact: true }).waitFor();

    server.kill("SIGKILL");
    await ended(server);
    const notice = page.getByText("Reconnecting: what you see may be old");
    await notice.waitFor();
    expect(await page.getByRole("link", { name: "hello", exact: true }).count()).toBe(1);

    await cluster.create(ours("Task", name, { agentRef: { name: "nobody" }, description: "Made meanwhile." }));
    await start();
    await notice.waitFor({ state: "detached", timeout: 30_000 });
    await page.getByRole("link", { name, exact: true }).waitFor();
  });
});
