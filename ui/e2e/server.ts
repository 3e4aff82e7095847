import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { inject } from "vitest";
import { START_MS } from "./limits";
import { ended } from "./platform";

function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const probe = createServer();
    probe.once("error", () => done(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => done(true)));
  });
}

/**
 * A free port below the ports that systems assign by themselves: no other process gets it before the server listens, or
 * while the server restarts.
 */
export async function freePort(): Promise<number> {
  let port = randomInt(20_000, 30_000);
  while (!(await isFree(port))) port = randomInt(20_000, 30_000);
  return port;
}

/** A second server process on the cluster of the platform. */
export class OwnServer {
  readonly url: string;
  private child: ChildProcess | undefined;

  constructor(
    private readonly port: number,
    private readonly options: string[],
  ) {
    this.url = `http://127.0.0.1:${port}`;
  }

  /** Resolves when the server is ready. */
  async start(): Promise<void> {
    const { binary, kubeconfig } = inject("platform");
    const child = spawn(
      binary,
      ["server", "--address", `127.0.0.1:${this.port}`, "--log", "warn", "--requests-per-second", "0", ...this.options],
      { stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, KUBECONFIG: kubeconfig } },
    );
    this.child = child;
    const deadline = Date.now() + START_MS;
    for (;;) {
      const answer = await fetch(`${this.url}/ready`, { signal: AbortSignal.timeout(START_MS) }).catch(() => undefined);
      if (child.exitCode !== null || child.signalCode !== null) throw new Error("The server ended during its start");
      if (answer?.ok) return;
      if (Date.now() > deadline) throw new Error("The server did not start in time");
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** Kills the process, as a crash would. */
  async kill(): Promise<void> {
    this.child?.kill("SIGKILL");
    if (this.child) await ended(this.child);
  }
}
