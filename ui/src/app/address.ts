import { useCallback } from "react";
import { useSearchParams } from "react-router";

type Change = (edit: (params: URLSearchParams) => void, options?: { replace?: boolean }) => void;

/**
 * The query parameters and a setter. An update starts from the URL itself, because the rendered parameters may be
 * outdated and would restore removed parameters. One update per event: a second update in the same event does not
 * see the first.
 */
export function useAddress(): [URLSearchParams, Change] {
  const [params, setParams] = useSearchParams();
  const change = useCallback<Change>(
    (edit, { replace = true } = {}) => {
      const next = new URLSearchParams(window.location.search);
      edit(next);
      setParams(next, { replace, preventScrollReset: true });
    },
    [setParams],
  );
  return [params, change];
}
