import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { call, objectPath } from "../api/client";
import { keys } from "../api/keys";
import type { LogSearch } from "../api/types";

/** The server is asked when a person stops typing. */
const PAUSE_MS = 400;
/** As the server allows. */
const MAX_TEXT = 200;
const LIMIT = 2_000;

/** What the server found in the stored logs of a Task. */
export interface StoredMatches {
  /** The text that was searched for. */
  text: string;
  found: LogSearch | undefined;
  error: Error | null;
}

export interface StoredSearch {
  namespace: string;
  name: string;
  container: string;
  /** Unless set, the page has all lines and searches them itself. */
  enabled: boolean;
}

/** Searches the logs of all runs on the server, also lines that the page does not have. */
export function useStoredMatches(
  { namespace, name, container, enabled }: StoredSearch,
  text: string,
): StoredMatches | undefined {
  const [wanted, setWanted] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setWanted(text), text === "" ? 0 : PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const isSearchable = wanted.trim() !== "" && [...wanted].length <= MAX_TEXT;
  const query = useQuery({
    queryKey: keys.logSearch(namespace, name, container, wanted),
    queryFn: ({ signal }) =>
      call<LogSearch>(`${objectPath("tasks", namespace, name)}/logs/search`, {
        query: { q: wanted, container, limit: LIMIT },
        signal,
      }),
    enabled: enabled && isSearchable,
    retry: false,
    // The log of a running Task grows.
    staleTime: 5_000,
  });
  if (!enabled || !isSearchable || wanted !== text) return undefined;
  return { text: wanted, found: query.data, error: query.error };
}
