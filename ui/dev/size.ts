import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

/** What the first visit may weigh, compressed. Charts, editor and terminal come later and only when they are shown. */
const MOST_KB = 200;

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const seen = new Map<string, number>();

/** A file and everything that it imports at once. */
function weigh(file: string): void {
  if (seen.has(file)) return;
  const content = readFileSync(join(dist, file));
  seen.set(file, gzipSync(content).length);
  if (!file.endsWith(".js")) return;
  for (const [, name] of content.toString().matchAll(/(?:from|^import|;import)\s*["'`]\.\/([^"'`]+)["'`]/g)) {
    if (name) weigh(`assets/${name}`);
  }
}

const index = readFileSync(join(dist, "index.html"), "utf8");
for (const [, file] of index.matchAll(/(?:src|href)="\/([^"]+\.(?:js|css|svg))"/g)) if (file) weigh(file);
const kilobytes = [...seen.values()].reduce((sum, bytes) => sum + bytes, 0) / 1000;
console.log(`First load: ${kilobytes.toFixed(1)} kB compressed in ${seen.size} files (at most ${MOST_KB} kB)`);
process.exitCode = kilobytes > MOST_KB ? 1 : 0;
