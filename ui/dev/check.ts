import { spawn } from "node:child_process";

/**
 * `npm run check`: everything that needs no browser, at the same time. What a check says is shown when it has ended, so
 * that they do not talk into each other.
 */
const CHECKS: [string, string, string[]][] = [
  ["components", "vitest", ["run"]],
  ["types", "tsc", ["--noEmit"]],
  ["lint", "biome", ["check", "."]],
  ["schema.ts", "tsx", ["dev/generate.ts", "--check"]],
];

function run(name: string, program: string, words: string[]): Promise<boolean> {
  return new Promise((done) => {
    const started = Date.now();
    const child = spawn(`node_modules/.bin/${program}`, words, { stdio: ["ignore", "pipe", "pipe"] });
    const said: Buffer[] = [];
    child.stdout.on("data", (piece: Buffer) => said.push(piece));
    child.stderr.on("data", (piece: Buffer) => said.push(piece));
    child.once("error", (error) => said.push(Buffer.from(error.message)));
    child.once("close", (code) => {
      const seconds = ((Date.now() - started) / 1000).toFixed(1);
      process.stdout.write(`${Buffer.concat(said)}${name}: ${code === 0 ? "ok" : "FAILED"}, ${seconds} s\n`);
      done(code === 0);
    });
  });
}

const passed = await Promise.all(CHECKS.map((check) => run(...check)));
process.exitCode = passed.every(Boolean) ? 0 : 1;
