import { type QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callText, objectPath, type Query } from "./client";
import { ApiError } from "./error";
import { keys } from "./keys";
import { type Kind, pageFrom } from "./kinds";
import { freshest } from "./news";
import type { Identified, Page } from "./types";

/** The server takes at most this many objects a page. */
export const MOST_AT_ONCE = 500;

export function fetchPage<T>(
  kind: Kind,
  namespace: string,
  query: Query,
  offset: number,
  limit: number,
  signal?: AbortSignal,
): Promise<Page<T>> {
  return call<Record<string, unknown>>(objectPath(kind.plural, namespace), {
    query: { ...query, offset, limit },
    signal,
  }).then((body) => pageFrom<T>(kind, body));
}

/** One object, kept fresh by the feed of changes. */
export function useObject<T extends Identified>(kind: Kind, namespace: string, name: string) {
  const cache = useQueryClient();
  return useQuery({
    queryKey: keys.detail(kind.kind, namespace, name),
    queryFn: ({ signal }) => fetchObject<T>(cache, kind, namespace, name, signal),
  });
}

/** Asks for an object. What the feed told while it was on its way counts. */
export async function fetchObject<T extends Identified>(
  cache: QueryClient,
  kind: Kind,
  namespace: string,
  name: string,
  signal?: AbortSignal,
): Promise<T> {
  const answer = await call<T>(objectPath(kind.plural, namespace, name), { signal });
  return freshest(answer, cache.getQueryData<T>(keys.news(kind.kind, namespace, name)));
}

/** The names to choose from in a form. */
export function useChoices<T extends Identified>(kind: Kind, namespace: string, enabled = true) {
  return useQuery({
    queryKey: keys.choices(kind, namespace),
    queryFn: ({ signal }) =>
      fetchPage<T>(kind, namespace, { sortBy: "name", sortOrder: "asc" }, 0, MOST_AT_ONCE, signal).then(
        (page) => page.items,
      ),
    enabled,
  });
}

/** The whole object as YAML. */
export function useYaml(kind: Kind, namespace: string, name: string, enabled = true) {
  return useQuery({
    queryKey: keys.yaml(kind.kind, namespace, name),
    queryFn: ({ signal }) => callText(objectPath(kind.plural, namespace, name), { query: { output: "yaml" }, signal }),
    enabled,
    staleTime: 0,
  });
}

export interface Creation {
  namespace: string;
  json?: unknown;
  yaml?: string;
  dryRun?: boolean;
}

/** Creates an object; with `dryRun` the server only says whether it would. */
export function useCreate<T extends Identified>(kind: Kind) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ namespace, json, yaml, dryRun }: Creation) =>
      call<T>(objectPath(kind.plural, namespace), {
        method: "POST",
        json,
        yaml,
        query: { dryRun: dryRun || undefined },
      }),
    onSuccess: (_created, { dryRun }) => {
      if (!dryRun) void cache.invalidateQueries({ queryKey: keys.lists(kind.kind) });
    },
  });
}

export interface Replacement {
  yaml: string;
  dryRun?: boolean;
  /** The same for the version that the server has now; none if somebody changed what this changes. */
  rebased: () => Promise<string | undefined>;
}

/** Replaces an object by YAML. What somebody else changed meanwhile is a conflict (409), what controllers note is not. */
export function useReplace<T extends Identified>(kind: Kind, namespace: string, name: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: async ({ yaml, dryRun, rebased }: Replacement) => {
      const put = (text: string) =>
        call<T>(objectPath(kind.plural, namespace, name), {
          method: "PUT",
          yaml: text,
          query: { dryRun: dryRun || undefined },
        });
      try {
        return await put(yaml);
      } catch (error) {
        const again = ApiError.is(error, 409) ? await rebased() : undefined;
        if (again === undefined) throw error;
        return put(again);
      }
    },
    onSuccess: (_saved, { dryRun }) => {
      if (dryRun) return;
      void cache.invalidateQueries({ queryKey: keys.detail(kind.kind, namespace, name) });
      void cache.invalidateQueries({ queryKey: keys.yaml(kind.kind, namespace, name) });
    },
  });
}

export function useDelete(kind: Kind) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ namespace, name }: { namespace: string; name: string }) =>
      call<void>(objectPath(kind.plural, namespace, name), { method: "DELETE" }),
    onSuccess: () => cache.invalidateQueries({ queryKey: keys.lists(kind.kind) }),
  });
}

/** An action on an object, such as `stop` or `suspend`, that answers with the object. */
export function useAction<T extends Identified>(kind: Kind, action: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ namespace, name }: { namespace: string; name: string }) =>
      call<T>(`${objectPath(kind.plural, namespace, name)}/${action}`, { method: "POST" }),
    onSuccess: (answer, { namespace, name }) => {
      // `trigger` answers with a sentence; only an object goes into the cache.
      if (answer && "resourceVersion" in answer) {
        cache.setQueryData<T>(keys.detail(kind.kind, namespace, name), (seen) => seen && freshest(seen, answer));
      }
      void cache.invalidateQueries({ queryKey: keys.explain(kind.kind, namespace, name) });
    },
  });
}
