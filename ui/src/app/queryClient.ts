import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "../api/error";

/** Trouble on the way may pass; a refusal stays one however often it is asked. */
function mayPass(error: unknown): boolean {
  return !(error instanceof ApiError) || error.code === 0 || error.code >= 502;
}

export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        // The feed of changes keeps everything fresh: nothing is asked for again without a reason.
        staleTime: 5 * 60_000,
        refetchOnWindowFocus: false,
        retry: (failures, error) => failures < 3 && mayPass(error),
        retryDelay: (attempt) => Math.min(8_000, 500 * 2 ** attempt),
      },
    },
  });
}
