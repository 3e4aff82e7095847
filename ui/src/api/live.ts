import type { QueryClient } from "@tanstack/react-query";
import { url } from "./client";
import { keys } from "./keys";
import { freshest, isNews } from "./news";
import { openStream, type StreamState } from "./stream";
import type { Change, Identified, Page } from "./types";

/** Lists are asked for again at most this often, however many objects come and go. */
const REFRESH_MS = 1_000;

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
  if (!object) return;
  const detail = kind === "KubeOpenCodeConfig" ? keys.config : keys.detail(kind, namespace, name);
  // Kept for an object that is on its way: its answer may have been made before this change.
  if (cache.getQueryState(detail)) cache.setQueryData(keys.news(kind, namespace, name), object);
  cache.setQueryData<Identified>(detail, (seen) => seen && freshest(seen, object));
  cache.setQueriesData<Page<Identified>>({ queryKey: keys.lists(kind) }, (page) => page && replaceIn(page, object));
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
