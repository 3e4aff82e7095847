import { useEffect, useRef, useState } from "react";
import { type ArtifactPlace, fetchFiles } from "../api/results";
import { type Children, childrenOf, directoriesOf, type TreeEntry } from "./paths";

interface Directory extends Partial<Children> {
  loading: boolean;
  error?: unknown;
}

/** One visible line of the tree. */
export type TreeRow =
  | { kind: "item"; key: string; depth: number; entry: TreeEntry; open: boolean }
  /** The rest of a directory is loaded on request. */
  | { kind: "more" | "loading" | "failed"; key: string; depth: number; prefix: string; error?: unknown };

export interface Tree {
  rows: TreeRow[];
  /** State of the whole artifact. */
  root: Directory;
  toggle: (prefix: string, open: boolean) => void;
  /** Loads a directory, or the next page of it. */
  load: (prefix: string) => void;
}

/** The directories of an artifact that a person has opened. `selected`: path of a file whose directories are open. */
export function useTree(place: ArtifactPlace, selected: string | undefined): Tree {
  const [directories, setDirectories] = useState<ReadonlyMap<string, Directory>>(new Map([["", { loading: true }]]));
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const abort = useRef<AbortController | undefined>(undefined);

  const put = (prefix: string, change: (before: Directory | undefined) => Directory) =>
    setDirectories((before) => new Map(before).set(prefix, change(before.get(prefix))));

  const fetch = (prefix: string, known: Children | undefined) => {
    const signal = abort.current?.signal;
    put(prefix, (before) => ({ ...before, loading: true, error: undefined }));
    childrenOf((query) => fetchFiles(place, query, signal), prefix, known?.next).then(
      (page) => {
        if (signal?.aborted) return;
        const entries = [...(known?.entries ?? []), ...page.entries];
        put(prefix, () => ({ entries, next: page.next, loading: false }));
      },
      (error: unknown) => {
        if (!signal?.aborted) put(prefix, (before) => ({ ...before, loading: false, error }));
      },
    );
  };
  const childrenKnown = (prefix: string): Children | undefined => {
    const { entries, next } = directories.get(prefix) ?? {};
    return entries && { entries, next };
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: the owner mounts one tree for each artifact.
  useEffect(() => {
    abort.current = new AbortController();
    fetch("", undefined);
    const shown = selected === undefined ? [] : directoriesOf(selected);
    for (const prefix of shown) fetch(prefix, undefined);
    setOpen(new Set(shown));
    return () => abort.current?.abort();
  }, []);

  const toggle = (prefix: string, next: boolean) => {
    const changed = new Set(open);
    if (next) changed.add(prefix);
    else changed.delete(prefix);
    setOpen(changed);
    if (next && !directories.has(prefix)) fetch(prefix, undefined);
  };

  const rows: TreeRow[] = [];
  const collect = (prefix: string, depth: number) => {
    const directory = directories.get(prefix);
    for (const entry of directory?.entries ?? []) {
      const isOpen = entry.kind === "directory" && open.has(entry.prefix);
      const key = entry.kind === "directory" ? entry.prefix : entry.file.path;
      rows.push({ kind: "item", key, depth, entry, open: isOpen });
      if (entry.kind === "directory" && isOpen) collect(entry.prefix, depth + 1);
    }
    if (!directory) return;
    // No path contains two slashes.
    const end = { depth, prefix, error: directory.error };
    // The root has a state of its own.
    if (directory.loading && (prefix !== "" || directory.entries))
      rows.push({ kind: "loading", key: `${prefix}//loading`, ...end });
    else if (directory.error && (prefix !== "" || directory.entries))
      rows.push({ kind: "failed", key: `${prefix}//failed`, ...end });
    else if (directory.next !== undefined) rows.push({ kind: "more", key: `${prefix}//more`, ...end });
  };
  collect("", 0);
  return {
    rows,
    root: directories.get("") ?? { loading: true },
    toggle,
    load: (prefix) => fetch(prefix, childrenKnown(prefix)),
  };
}
