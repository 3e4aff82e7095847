import { useSyncExternalStore } from "react";

export interface Toast {
  id: number;
  tone: "good" | "bad";
  text: string;
}

const STAY_MS = 5_000;
/** Errors take longer to read. */
const STAY_BAD_MS = 10_000;

let toasts: Toast[] = [];
let nextId = 1;
const listeners = new Set<() => void>();

function publish(next: Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

export function dismissToast(id: number): void {
  publish(toasts.filter((toast) => toast.id !== id));
}

function show(tone: Toast["tone"], text: string): void {
  const id = nextId;
  nextId += 1;
  publish([...toasts.slice(-3), { id, tone, text }]);
  setTimeout(() => dismissToast(id), tone === "bad" ? STAY_BAD_MS : STAY_MS);
}

/** Reports the result of an action. */
export const toast = {
  done: (text: string) => show("good", text),
  failed: (error: unknown) => show("bad", error instanceof Error ? error.message : String(error)),
};

export function useToasts(): Toast[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
}
