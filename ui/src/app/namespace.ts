import { useCallback } from "react";
import { useAddress } from "./address";

const KEY = "kubeopencode.namespace";
/** All namespaces are `*` in the URL: an absent parameter means the last selection. */
const ALL = "*";

function remembered(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** The selected namespace, `""` for all. The URL takes precedence over the last selection. */
export function useNamespace(): [string, (namespace: string) => void] {
  const [params, change] = useAddress();
  const named = params.get("namespace");
  const namespace = named === null ? remembered() : named === ALL ? "" : named;
  const choose = useCallback(
    (next: string) => {
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // Storage is disabled: the URL keeps the selection.
      }
      change(
        (query) => {
          query.set("namespace", next === "" ? ALL : next);
          query.delete("row");
        },
        { replace: false },
      );
    },
    [change],
  );
  return [namespace, choose];
}
