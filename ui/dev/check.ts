import { spawn } from "node:child_process";

/**
 * `npm run check`: all checks that need no browser, in parallel. The output of a check is printed when it has finished,
 * so that outputs do not mix.
 */
const CHECKS: [string, string, string[]][] = [
  ["components", "vitest", ["run"]],
  ["types", "tsc", ["--noEmit"]],
  ["lint", "biome", ["check", "."]],
  ["schema.ts", "tsx", ["dev/generate.ts", "--check"]],
];

function run(name: string, program: string, args: string[]): Promise<boolean> {
  return new Promise((done) => {
    const started = Date.now();
    const child = spawn(`node_modules/.bin/${program}`, args, { stdio: ["ignore", "pipe", "pipe"] });
    const output: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => output.push(piece));
    child.stderr.on("data", (piece: Buffer) => output.push(piece));
    child.once("error", (error) => output.push(Buffer.from(error.message)));
    child.once("close", (code) => {
      const seconds = ((Date.now() - started) / 1000).toFixed(1);
      process.stdout.write(`${Buffer.concat(output)}${name}: ${code === 0 ? "ok" : "FAILED"}, ${seconds} s\n`);
      done(code === 0);
    });
  });
}

const passed = await Promise.all(CHECKS.map((check) => run(...check)));
process.exitCode = passed.every(Boolean) ? 0 : 1;
