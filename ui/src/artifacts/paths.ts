import type { ArtifactFile } from "../api/types";

const HEX = "/hex/";
const SLASH = 0x2f;

/** The bytes of a path of a request. Paths are compared and cut as bytes, because names need not be UTF-8. */
export function bytesOf(path: string): Uint8Array {
  if (!path.startsWith(HEX)) return new TextEncoder().encode(path);
  const digits = path.slice(HEX.length);
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) => Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16));
}

/** The path of a request: the text, or hexadecimal digits if the bytes are no UTF-8. */
export function pathOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return HEX + [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }
}

function textOf(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/** A file, or a directory with entries. */
export type TreeEntry =
  | { kind: "entry"; name: string; file: ArtifactFile }
  /** `prefix`: the path of its entries begins with it. */
  | { kind: "directory"; name: string; prefix: string };

export interface Children {
  entries: TreeEntry[];
  /** The value of `after` for the rest; unset if these are all. */
  next?: string;
}

interface Page {
  files: ArtifactFile[];
  next?: string;
}

/** Enough for most directories. */
const ENTRIES = 200;
/** Requests for one page of a directory. Each either returns many entries or skips a directory. */
const REQUESTS = 6;

/**
 * The direct entries of a directory. The server lists all files below it; as soon as a page ends inside a subdirectory,
 * the rest of the subdirectory is skipped.
 */
export async function childrenOf(
  fetchPage: (query: { prefix: string; after?: string; limit: number }) => Promise<Page>,
  prefix: string,
  after?: string,
): Promise<Children> {
  const start = bytesOf(prefix).length;
  const entries: TreeEntry[] = [];
  let next = after;
  for (let request = 0; request < REQUESTS && entries.length < ENTRIES; request += 1) {
    const page = await fetchPage({ prefix, after: next, limit: ENTRIES });
    let inside: Uint8Array | undefined;
    for (const file of page.files) {
      const bytes = bytesOf(file.path);
      const slash = bytes.indexOf(SLASH, start);
      inside = slash < 0 ? undefined : bytes.slice(0, slash + 1);
      if (!inside) {
        entries.push({ kind: "entry", name: textOf(bytes.slice(start)), file });
        continue;
      }
      const directory = pathOf(inside);
      const last = entries.at(-1);
      if (last?.kind === "directory" && last.prefix === directory) continue;
      entries.push({ kind: "directory", name: textOf(inside.slice(start, -1)), prefix: directory });
    }
    if (page.next === undefined) return { entries };
    next = inside ? pathOf(afterAll(inside)) : page.next;
  }
  return { entries, next };
}

/** A name after those of all entries of a directory. UTF-8 has no byte 255, and other names hardly begin with several. */
function afterAll(directory: Uint8Array): Uint8Array {
  return Uint8Array.from([...directory, 0xff, 0xff, 0xff, 0xff]);
}

/** Prefixes of the directories that contain a file: `a/`, `a/b/`. */
export function directoriesOf(path: string): string[] {
  const bytes = bytesOf(path);
  const prefixes: string[] = [];
  for (let slash = bytes.indexOf(SLASH); slash >= 0; slash = bytes.indexOf(SLASH, slash + 1)) {
    prefixes.push(pathOf(bytes.slice(0, slash + 1)));
  }
  return prefixes;
}

/** The file that a relative address in a file means: `../img/a.png` in `docs/x.md` is `img/a.png`. */
export function relativeTo(file: string, address: string): string | undefined {
  const target = address.split(/[?#]/)[0] ?? "";
  if (target === "" || /^[a-z][a-z0-9+.-]*:|^\//i.test(target)) return undefined;
  const parts = file.split("/").slice(0, -1);
  let decoded: string;
  try {
    decoded = decodeURIComponent(target);
  } catch {
    return undefined;
  }
  for (const part of decoded.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) return undefined;
  }
  return parts.join("/");
}
