import { useCallback } from "react";
import { useAddress } from "./address";

const KEY = "kubeopencode.namespace";
/** In the address, all namespaces are a star: an absent parameter means "as last time". */
const ALL = "*";

function remembered(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** The chosen namespace, `""` for all. The address wins over what was chosen last time. */
export function useNamespace(): [string, (namespace: string) => void] {
  const [params, change] = useAddress();
  const named = params.get("namespace");
  const namespace = named === null ? remembered() : named === ALL ? "" : named;
  const choose = useCallback(
    (next: string) => {
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // Storage is off: the address keeps it.
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
