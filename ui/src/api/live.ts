import type { QueryClient } from "@tanstack/react-query";
import { url } from "./client";
import { keys } from "./keys";
import { openStream, type StreamState } from "./stream";
import type { Change, Identified, Page } from "./types";
import { isNewer, newest } from "./versions";

/** Lists are fetched again at most this often. */
const REFRESH_MS = 1_000;

/** Replaces an object in a page of a list; returns the same page if the object is not in it. */
export function replaceIn<T extends Identified>(page: Page<T>, changed: T): Page<T> {
  const at = page.items.findIndex((item) => item.name === changed.name && item.namespace === changed.namespace);
  const cached = page.items[at];
  if (!cached || !isNewer(cached.resourceVersion, changed.resourceVersion)) return page;
  const items = page.items.slice();
  items[at] = changed;
  return { ...page, items };
}

/** Applies one change to the cache. */
export function applyChange(cache: QueryClient, change: Change): void {
  const { kind, name, namespace = "", object } = change;
  if (!object) return;
  const detail = kind === "KubeOpenCodeConfig" ? keys.config : keys.detail(kind, namespace, name);
  // Kept while the object is being fetched: the response may be older than this change.
  if (cache.getQueryState(detail)) cache.setQueryData(keys.lastChange(kind, namespace, name), object);
  cache.setQueryData<Identified>(detail, (cached) => cached && newest(cached, object));
  cache.setQueriesData<Page<Identified>>({ queryKey: keys.lists(kind) }, (page) => page && replaceIn(page, object));
}

/** Opens the event stream that keeps the cache up to date. Returns a function that closes it. */
export function startLiveUpdates(
  cache: QueryClient,
  namespace: string,
  onState: (state: StreamState) => void,
): () => void {
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
  const scheduleRefresh = (kind: string) => {
    stale.add(kind);
    timer ??= setTimeout(refresh, REFRESH_MS);
  };

  let helloId: string | undefined;
  const end = openStream({
    address: (lastEventId) => url("/events/stream", { namespace, lastEventId }),
    events: ["change", "reset", "hello"],
    onState,
    // The hello event contains the position in the stream. It is used until the first change arrives, and after a reset;
    // otherwise changes that are still to be resent would be skipped.
    position: (event, data, last) => {
      if (event === "hello") helloId = (JSON.parse(data) as { id?: string }).id;
      return last === undefined || event === "reset" ? helloId : undefined;
    },
    onEvent: (event, data) => {
      if (event === "reset") {
        void cache.invalidateQueries();
        return;
      }
      if (event !== "change") return;
      const change = JSON.parse(data) as Change;
      applyChange(cache, change);
      scheduleRefresh(change.kind);
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
