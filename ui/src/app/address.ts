import { useCallback } from "react";
import { useSearchParams } from "react-router";

type Change = (edit: (params: URLSearchParams) => void, options?: { replace?: boolean }) => void;

/**
 * The query of the address, and how to change it. A change starts from the address itself: what is rendered may be a
 * moment behind it, and would bring back what was taken away in between. One change an event: a second one in the same
 * event does not see the first.
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
