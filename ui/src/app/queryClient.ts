import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "../api/error";

/** Network and server errors may be temporary; client errors are not. */
function isRetryable(error: unknown): boolean {
  return !(error instanceof ApiError) || error.code === 0 || error.code >= 502;
}

/**
 * Requests are sent even if the browser reports that it is offline: the server may run on this machine. By default,
 * requests would wait for the network without an error.
 */
const NETWORK_MODE = "always";

export function makeQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        networkMode: NETWORK_MODE,
        // The event stream invalidates the cache, so queries stay fresh for long.
        staleTime: 5 * 60_000,
        refetchOnWindowFocus: false,
        retry: (failures, error) => failures < 3 && isRetryable(error),
        retryDelay: (attempt) => Math.min(8_000, 500 * 2 ** attempt),
      },
      mutations: { networkMode: NETWORK_MODE },
    },
  });
}
