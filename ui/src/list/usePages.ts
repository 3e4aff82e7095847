import { useQueries } from "@tanstack/react-query";
import { useRef, useState } from "react";
import type { Query } from "../api/client";
import { keys } from "../api/keys";
import type { Kind } from "../api/kinds";
import { fetchPage } from "../api/objects";
import type { Identified, Page } from "../api/types";

export const PAGE_SIZE = 100;

export interface Pages<T> {
  total: number;
  /** The object in a row, once its page is loaded. */
  at: (row: number) => T | undefined;
  /** The objects of all loaded pages. */
  loaded: () => T[];
  /** No page is loaded yet. */
  loading: boolean;
  /** The shown rows belong to the previous query; the new query is loading. */
  old: boolean;
  error: unknown;
  retry: () => void;
  /** Sets the visible rows, whose pages are fetched. */
  show: (first: number, last: number) => void;
}

/** The pages of a long list, fetched on demand. */
export function usePages<T extends Identified>(
  kind: Kind,
  namespace: string,
  query: Query,
  firstRow: number,
): Pages<T> {
  const [range, setRange] = useState(() => {
    const page = Math.floor(firstRow / PAGE_SIZE);
    return [page, page] as const;
  });
  const wanted = Array.from({ length: range[1] - range[0] + 1 }, (_, i) => range[0] + i);
  const answers = useQueries({
    queries: wanted.map((page) => ({
      queryKey: keys.list(kind, namespace, query, page * PAGE_SIZE),
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        fetchPage<T>(kind, namespace, query, page * PAGE_SIZE, PAGE_SIZE, signal),
    })),
  });

  const arrived = new Map<number, Page<T>>();
  answers.forEach((answer, i) => {
    const page = wanted[i];
    if (answer.data && page !== undefined) arrived.set(page, answer.data);
  });
  const first = [...arrived.values()][0];
  const current = first ? { total: first.total, arrived } : undefined;
  // The previous result stays until the first page of a new query is loaded, to avoid flicker while typing.
  const last = useRef<{ total: number; arrived: Map<number, Page<T>> } | undefined>(undefined);
  const shownNow = current ?? last.current;
  if (current) last.current = current;

  return {
    total: shownNow?.total ?? 0,
    at: (row) => shownNow?.arrived.get(Math.floor(row / PAGE_SIZE))?.items[row % PAGE_SIZE],
    loaded: () => [...(shownNow?.arrived.values() ?? [])].flatMap((page) => page.items),
    loading: !shownNow && !answers.some((answer) => answer.isError),
    old: !current && shownNow !== undefined,
    error: current ? undefined : answers.find((answer) => answer.isError)?.error,
    retry: () => {
      for (const answer of answers) void answer.refetch();
    },
    show: (top, bottom) => {
      const next = [Math.floor(Math.max(0, top) / PAGE_SIZE), Math.floor(Math.max(0, bottom) / PAGE_SIZE)] as const;
      if (next[0] !== range[0] || next[1] !== range[1]) setRange(next);
    },
  };
}
