import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { call, path } from "./client";
import { keys } from "./keys";
import { AGENT_TEMPLATE, MODEL, MODEL_PROVIDER } from "./kinds";
import type { SetupFinding, SetupRequest, SetupResponse, SetupTest } from "./types";

/** Tests a provider from the server; nothing is saved. */
export function useSetupTest(namespace: string) {
  return useMutation({
    mutationFn: (test: SetupTest) =>
      call<SetupFinding>(path("namespaces", namespace, "setup", "test"), { method: "POST", json: test }),
  });
}

/** Saves Secret, ModelProvider, Model and template. */
export function useSetupSave(namespace: string) {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (setup: SetupRequest) =>
      call<SetupResponse>(path("namespaces", namespace, "setup"), { method: "POST", json: setup }),
    onSuccess: () => {
      for (const kind of [MODEL_PROVIDER, MODEL, AGENT_TEMPLATE]) {
        void cache.invalidateQueries({ queryKey: [kind.kind] });
      }
    },
  });
}

/** Whether the user may save a setup; `false` until it is known. */
export function useMaySetUp(namespace: string, enabled: boolean): boolean {
  const checks = [
    { verb: "create", resource: MODEL_PROVIDER.plural, namespace },
    { verb: "create", group: "", resource: "secrets", namespace },
  ];
  const answer = useQuery({
    queryKey: keys.maySetUp(namespace),
    queryFn: ({ signal }) => call<{ allowed: boolean[] }>("/rights", { method: "POST", json: { checks }, signal }),
    enabled: enabled && namespace !== "",
    staleTime: 60_000,
    retry: false,
  });
  return answer.data?.allowed.every(Boolean) ?? false;
}
