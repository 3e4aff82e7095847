import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";
import { inject } from "vitest";
import { ended } from "./platform";

/** A free port. */
export function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address && typeof address === "object" ? done(address.port) : failed(new Error("no port"))));
    });
  });
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
    for (let left = 300; ; left -= 1) {
      const answer = await fetch(`${this.url}/ready`).catch(() => undefined);
      if (answer?.ok) return;
      if (left === 0 || child.exitCode !== null) throw new Error("The server does not start");
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** Kills the process, as a crash would. */
  async kill(): Promise<void> {
    this.child?.kill("SIGKILL");
    if (this.child) await ended(this.child);
  }
}
