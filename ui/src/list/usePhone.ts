import { useSyncExternalStore } from "react";

const QUERY = "(max-width: 640px)";

/** Whether the viewport has the width of a phone. */
export function usePhone(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const media = window.matchMedia(QUERY);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => window.matchMedia(QUERY).matches,
  );
}
