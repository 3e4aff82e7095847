import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { build } from "vite";

/**
 * `npm run build`: builds the page into `dist`, which the binary embeds. Unchanged files are not written, so that cargo
 * does not rebuild the binary.
 */
const FRESH = "node_modules/.page";
const DIST = "dist";

async function files(dir: string): Promise<Map<string, Buffer>> {
  const found = await readdir(dir, { recursive: true, withFileTypes: true }).catch(() => []);
  const read = found
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .map(async (file): Promise<[string, Buffer]> => [path.relative(dir, file), await readFile(file)]);
  return new Map(await Promise.all(read));
}

await build({ logLevel: "warn", build: { outDir: FRESH, emptyOutDir: true } });
const [fresh, old] = await Promise.all([files(FRESH), files(DIST)]);
for (const name of old.keys()) {
  if (!fresh.has(name)) await rm(path.join(DIST, name));
}
for (const [name, content] of fresh) {
  if (old.get(name)?.equals(content)) continue;
  const file = path.join(DIST, name);
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, content);
}
await rm(FRESH, { recursive: true });
