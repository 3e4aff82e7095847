import { type QueryClient, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, callText, objectPath, type Query } from "./client";
import { ApiError } from "./error";
import { keys } from "./keys";
import { type Kind, pageFrom } from "./kinds";
import type { Identified, Page } from "./types";
import { newest } from "./versions";

/** Limit of the server for one page. */
export const MAX_PAGE_SIZE = 500;

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

/** One object, kept up to date by the event stream. */
export function useObject<T extends Identified>(kind: Kind, namespace: string, name: string) {
  const cache = useQueryClient();
  return useQuery({
    queryKey: keys.detail(kind.kind, namespace, name),
    queryFn: ({ signal }) => fetchObject<T>(cache, kind, namespace, name, signal),
  });
}

/** Fetches an object and applies the changes that arrived meanwhile. */
export async function fetchObject<T extends Identified>(
  cache: QueryClient,
  kind: Kind,
  namespace: string,
  name: string,
  signal?: AbortSignal,
): Promise<T> {
  const answer = await call<T>(objectPath(kind.plural, namespace, name), { signal });
  return newest(answer, cache.getQueryData<T>(keys.lastChange(kind.kind, namespace, name)));
}

/** The options of a select field in a form. */
export function useChoices<T extends Identified>(kind: Kind, namespace: string, enabled = true) {
  return useQuery({
    queryKey: keys.choices(kind, namespace),
    queryFn: ({ signal }) =>
      fetchPage<T>(kind, namespace, { sortBy: "name", sortOrder: "asc" }, 0, MAX_PAGE_SIZE, signal).then(
        (page) => page.items,
      ),
    enabled,
  });
}

/** The object as YAML. */
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

/** Creates an object; with `dryRun` the server only validates it. */
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
  /** The edit applied to the current version of the server; `undefined` on a conflict. */
  rebased: () => Promise<string | undefined>;
}

/** Replaces an object by YAML. A concurrent change of the spec is a conflict (409), a changed status is not. */
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

/** An action on an object, such as `stop` or `suspend`, that returns the object. */
export function useAction<T extends Identified>(kind: Kind, action: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: ({ namespace, name }: { namespace: string; name: string }) =>
      call<T>(`${objectPath(kind.plural, namespace, name)}/${action}`, { method: "POST" }),
    onSuccess: (answer, { namespace, name }) => {
      // `trigger` returns a message; only objects are cached.
      if (answer && "resourceVersion" in answer) {
        cache.setQueryData<T>(keys.detail(kind.kind, namespace, name), (cached) => cached && newest(cached, answer));
      }
      void cache.invalidateQueries({ queryKey: keys.explain(kind.kind, namespace, name) });
    },
  });
}
