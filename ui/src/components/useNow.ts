import { useSyncExternalStore } from "react";

// One clock for the page: a thousand ages on screen tick together, with one timer.
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** The time, told anew every second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
