import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

/** Limit of the first load, compressed. Charts, editor, terminal and graph are loaded on demand. */
const MAX_KB = 200;

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const sizes = new Map<string, number>();

/** Adds a file and its static imports. */
function weigh(file: string): void {
  if (sizes.has(file)) return;
  const content = readFileSync(join(dist, file));
  sizes.set(file, gzipSync(content).length);
  if (!file.endsWith(".js")) return;
  for (const [, name] of content.toString().matchAll(/(?:from|^import|;import)\s*["'`]\.\/([^"'`]+)["'`]/g)) {
    if (name) weigh(`assets/${name}`);
  }
}

const index = readFileSync(join(dist, "index.html"), "utf8");
for (const [, file] of index.matchAll(/(?:src|href)="\/([^"]+\.(?:js|css|svg))"/g)) if (file) weigh(file);
const kilobytes = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0) / 1000;
console.log(`First load: ${kilobytes.toFixed(1)} kB compressed in ${sizes.size} files (at most ${MAX_KB} kB)`);
process.exitCode = kilobytes > MAX_KB ? 1 : 0;
