import { expect, test, vi } from "vitest";
import type { ArtifactFile } from "../api/types";
import { bytesOf, childrenOf, directoriesOf, pathOf, relativeTo } from "./paths";

/** A server with these files, in the order of their bytes. */
function server(paths: string[]) {
  const compare = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b);
  const files = paths
    .map((path): ArtifactFile => ({ name: path, path, kind: "file", size: 1 }))
    .sort((a, b) => compare(bytesOf(a.path), bytesOf(b.path)));
  return vi.fn(async ({ prefix, after, limit }: { prefix: string; after?: string; limit: number }) => {
    const start = Buffer.from(bytesOf(prefix));
    const found = files.filter((file) => {
      const bytes = bytesOf(file.path);
      return start.equals(bytes.slice(0, start.length)) && (after === undefined || compare(bytes, bytesOf(after)) > 0);
    });
    const page = found.slice(0, limit);
    return { files: page, next: page.length < found.length ? page.at(-1)?.path : undefined };
  });
}

const shown = ({ entries }: { entries: { kind: string; name: string }[] }) =>
  entries.map(({ kind, name }) => (kind === "directory" ? `${name}/` : name));

test("a directory lists its files and subdirectories, in the order of their bytes", async () => {
  const fetchPage = server(["a/x", "a/y/z", "a-b", "a.txt", "b", "é/f"]);
  expect(shown(await childrenOf(fetchPage, ""))).toEqual(["a-b", "a.txt", "a/", "b", "é/"]);
  expect(shown(await childrenOf(fetchPage, "a/"))).toEqual(["x", "y/"]);
  expect(await childrenOf(fetchPage, "none/")).toEqual({ entries: [] });
});

test("large subdirectories are skipped instead of read", async () => {
  const many = (directory: string) => Array.from({ length: 5_000 }, (_, i) => `${directory}/${i}`);
  const fetchPage = server([...many("a"), ...many("b"), "c"]);
  expect(shown(await childrenOf(fetchPage, ""))).toEqual(["a/", "b/", "c"]);
  expect(fetchPage).toHaveBeenCalledTimes(3);
});

test("a directory with many entries is read in pages, each entry once", async () => {
  const names = Array.from({ length: 950 }, (_, i) => (i % 3 === 0 ? `${i}/file` : `${i}`));
  const fetchPage = server(names);
  const found: string[] = [];
  let after: string | undefined;
  do {
    const page = await childrenOf(fetchPage, "", after);
    found.push(...shown(page));
    after = page.next;
  } while (after !== undefined);
  expect(found).toHaveLength(950);
  expect(new Set(found).size).toBe(950);
});

test("names that are not UTF-8 keep their bytes", async () => {
  expect(pathOf(bytesOf("/hex/646972fe2f"))).toBe("/hex/646972fe2f");
  expect(pathOf(bytesOf("/hex/61"))).toBe("a");
  const fetchPage = server(["/hex/646972fe2f61", "/hex/646972fe2fff", "z"]);
  const { entries } = await childrenOf(fetchPage, "");
  expect(entries[0]).toMatchObject({ kind: "directory", prefix: "/hex/646972fe2f" });
  expect((await childrenOf(fetchPage, "/hex/646972fe2f")).entries).toHaveLength(2);
  expect(directoriesOf("/hex/646972fe2f61")).toEqual(["/hex/646972fe2f"]);
});

test("the directories of a file", () => {
  expect(directoriesOf("a/b/c.txt")).toEqual(["a/", "a/b/"]);
  expect(directoriesOf("c.txt")).toEqual([]);
});

test("relative addresses stay in the artifact", () => {
  const cases: [string, string | undefined][] = [
    ["img/a.png", "docs/img/a.png"],
    ["./a%20b.png?x#y", "docs/a b.png"],
    ["../a.png", "a.png"],
    ["../../a.png", undefined],
    ["/a.png", undefined],
    ["https://a.example/b.png", undefined],
    ["data:image/png;base64,x", undefined],
    ["%zz", undefined],
    ["#part", undefined],
  ];
  expect(cases.map(([address]) => [address, relativeTo("docs/x.md", address)])).toEqual(cases);
});
