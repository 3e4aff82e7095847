import type { QueryClient } from "@tanstack/react-query";
import { url } from "./client";
import { keys } from "./keys";
import { openStream, type StreamState } from "./stream";
import type { Change, Identified, Page } from "./types";

/** Lists are asked for again at most this often, however many objects come and go. */
const REFRESH_MS = 1_000;

/** Whether `incoming` is what the cache already holds, or older. Versions are numbers in practice; if not, any other is news. */
export function isNews(seen: string | undefined, incoming: string | undefined): boolean {
  if (!seen || !incoming) return true;
  const [a, b] = [Number(seen), Number(incoming)];
  if (Number.isNaN(a) || Number.isNaN(b)) return seen !== incoming;
  return b > a;
}

/** Puts a changed object in its place in a page of a list; the page itself if it is not there. */
export function replaceIn<T extends Identified>(page: Page<T>, changed: T): Page<T> {
  const at = page.items.findIndex((item) => item.name === changed.name && item.namespace === changed.namespace);
  const seen = page.items[at];
  if (!seen || !isNews(seen.resourceVersion, changed.resourceVersion)) return page;
  const items = page.items.slice();
  items[at] = changed;
  return { ...page, items };
}

/** Writes one change into the cache. */
export function applyChange(cache: QueryClient, change: Change): void {
  const { kind, name, namespace = "", object } = change;
  const detail = kind === "KubeOpenCodeConfig" ? keys.config : keys.detail(kind, namespace, name);
  if (object) {
    cache.setQueryData<Identified>(detail, (seen) => {
      if (!seen || !isNews(seen.resourceVersion, object.resourceVersion)) return seen;
      // A list form leaves out long parts (contexts, the whole description): what the detail knew stays.
      const keep = (seen as { description?: string }).description;
      const short = (object as { description?: string }).description;
      const description = keep && short && keep.startsWith(short) ? { description: keep } : {};
      return { ...dropAbsent(seen, object), ...object, ...description };
    });
    cache.setQueriesData<Page<Identified>>({ queryKey: keys.lists(kind) }, (page) => page && replaceIn(page, object));
  }
}

/** Parts that a list form never carries; everything else that is absent from it is really gone. */
const DETAIL_ONLY = new Set(["contexts", "description", "result"]);

function dropAbsent(seen: Identified, object: Identified): Partial<Identified> {
  return Object.fromEntries(
    Object.entries(seen).filter(([key]) => key in object || DETAIL_ONLY.has(key)),
  ) as Partial<Identified>;
}

/** The one connection that keeps everything on the page up to date. Returns how to end it. */
export function startLive(cache: QueryClient, namespace: string, onState: (state: StreamState) => void): () => void {
  const stale = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;

  const refresh = () => {
    timer = undefined;
    const kinds = [...stale];
    stale.clear();
    for (const kind of kinds) {
      for (const part of ["list", "choices", "history", "upcoming"]) {
        void cache.invalidateQueries({ queryKey: [kind, part] });
      }
    }
    void cache.invalidateQueries({ queryKey: ["summary"] });
    void cache.invalidateQueries({ queryKey: ["graph"] });
  };
  const later = (kind: string) => {
    stale.add(kind);
    timer ??= setTimeout(refresh, REFRESH_MS);
  };

  let greeted: string | undefined;
  const end = openStream({
    address: (lastEventId) => url("/events/stream", { namespace, lastEventId }),
    events: ["change", "reset", "hello"],
    onState,
    // The greeting names the feed's position. It counts until the first change arrives, and after a reset; otherwise
    // changes that are still to be resent would be skipped.
    position: (event, data, last) => {
      if (event === "hello") greeted = (JSON.parse(data) as { id?: string }).id;
      return last === undefined || event === "reset" ? greeted : undefined;
    },
    onEvent: (event, data) => {
      if (event === "reset") {
        void cache.invalidateQueries();
        return;
      }
      if (event !== "change") return;
      const change = JSON.parse(data) as Change;
      applyChange(cache, change);
      later(change.kind);
      for (const part of ["yaml", "explain", "permissions", "messages", "share"]) {
        void cache.invalidateQueries({ queryKey: [change.kind, part, change.namespace ?? "", change.name] });
      }
      if (change.type === "DELETED") {
        void cache.invalidateQueries({ queryKey: [change.kind, "detail", change.namespace ?? "", change.name] });
      }
    },
  });
  return () => {
    clearTimeout(timer);
    end();
  };
}
