import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * The product's own end-to-end tests: `npm run e2e:product -- <path to the binary>`. Starts the platform with its demo on
 * free ports, waits until the demo has ended, runs `e2e/product.test.ts` and stops the platform.
 */
const ui = fileURLToPath(new URL("..", import.meta.url));
const DEMO_MINUTES = 9;
const STOP_SECONDS = 30;

const binary = process.argv[2];
if (!binary) {
  console.error("Usage: npm run e2e:product -- <path to the binary>");
  process.exit(2);
}

const ended = (child: ChildProcess) =>
  new Promise<number>((done) => {
    child.once("error", (error) => {
      console.error(error.message);
      done(1);
    });
    child.once("exit", (code, signal) => done(code ?? (signal ? 1 : 0)));
  });

/** The link that stands below the demo's table; fails when the platform ends before it. */
function linkAfterDemo(platform: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let text = "";
    const late = setTimeout(
      () => failed(new Error(`The demo did not end within ${DEMO_MINUTES} minutes`)),
      DEMO_MINUTES * 60_000,
    );
    platform.stdout?.on("data", (piece: Buffer) => {
      process.stdout.write(piece);
      text += piece;
      const link = /^Look at it: (\S+)$/m.exec(text)?.[1];
      if (!link) return;
      clearTimeout(late);
      found(link);
    });
    void ended(platform).then((code) => {
      clearTimeout(late);
      failed(new Error(`The platform ended with code ${code} before its demo did`));
    });
  });
}

async function stop(platform: ChildProcess): Promise<boolean> {
  if (platform.exitCode !== null || platform.signalCode !== null) return false;
  const over = ended(platform);
  platform.kill("SIGINT");
  const late = setTimeout(() => platform.kill("SIGKILL"), STOP_SECONDS * 1000);
  const code = await over;
  clearTimeout(late);
  return code === 0;
}

const state = mkdtempSync(join(tmpdir(), "kubeopencode-e2e-"));
const platform = spawn(
  resolve(process.env.INIT_CWD ?? ".", binary),
  ["up", "--demo", "--in-memory", "--port", "0", "--api-port", "0", "--state-dir", join(state, "state")],
  { stdio: ["ignore", "pipe", "inherit"], detached: true },
);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void platform.kill("SIGINT"));

try {
  const link = await linkAfterDemo(platform);
  const tests = spawn("npx", ["vitest", "run", "--config", "e2e/vitest.config.ts", "e2e/product.test.ts"], {
    cwd: ui,
    stdio: "inherit",
    env: { ...process.env, E2E_LOGIN: link, E2E_URL: "", E2E_TOKEN: "" },
  });
  process.exitCode = await ended(tests);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  if (!(await stop(platform))) {
    console.error("The platform did not stop as it should");
    process.exitCode ||= 1;
  }
  rmSync(state, { recursive: true, force: true });
}
