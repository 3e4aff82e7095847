import { spawnSync } from "node:child_process";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** `npm run e2e:product -- BINARY [args for vitest]`: the page in a real browser, on the product itself. */
const [binary, ...args] = process.argv.slice(2);
if (!binary) {
  console.error("Usage: npm run e2e:product -- <path to the binary> [test file or -t 'name of a test']");
  process.exit(2);
}
const { status } = spawnSync("node_modules/.bin/vitest", ["run", "--config", "e2e/vitest.config.ts", ...args], {
  cwd: fileURLToPath(new URL("..", import.meta.url)),
  stdio: "inherit",
  env: { ...process.env, KUBEOPENCODE: resolve(process.env.INIT_CWD ?? ".", binary) },
});
process.exitCode = status ?? 1;
