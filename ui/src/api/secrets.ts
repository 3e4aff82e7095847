import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, objectPath } from "./client";
import { keys } from "./keys";
import type { ChangedSecret, NewSecret, Secret } from "./types";

const PLURAL = "secrets";

/** The Secrets of a namespace: names and keys, never values. */
export function useSecrets(namespace: string, enabled = true) {
  return useQuery({
    queryKey: keys.secrets(namespace),
    queryFn: ({ signal }) =>
      call<{ items: Secret[] }>(objectPath(PLURAL, namespace), { signal }).then(({ items }) => items),
    enabled: enabled && namespace !== "",
    retry: false,
  });
}

export function useSecret(namespace: string, name: string) {
  return useQuery({
    queryKey: keys.secret(namespace, name),
    queryFn: ({ signal }) => call<Secret>(objectPath(PLURAL, namespace, name), { signal }),
  });
}

function useRefresh() {
  const cache = useQueryClient();
  // Secrets are not in the event stream.
  return (namespace: string) => cache.invalidateQueries({ queryKey: keys.secrets(namespace) });
}

export function useCreateSecret() {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: ({ namespace, secret }: { namespace: string; secret: NewSecret }) =>
      call<Secret>(objectPath(PLURAL, namespace), { method: "POST", json: secret }),
    onSuccess: (_created, { namespace }) => refresh(namespace),
  });
}

export function useChangeSecret(namespace: string, name: string) {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: (change: ChangedSecret) =>
      call<Secret>(objectPath(PLURAL, namespace, name), { method: "PUT", json: change }),
    onSuccess: () => refresh(namespace),
  });
}

export function useDeleteSecret(namespace: string, name: string) {
  const refresh = useRefresh();
  return useMutation({
    mutationFn: () => call<void>(objectPath(PLURAL, namespace, name), { method: "DELETE" }),
    onSuccess: () => refresh(namespace),
  });
}
