import { useSyncExternalStore } from "react";

export type ThemeChoice = "system" | "light" | "dark";

// Shared with public/theme.js, which reads it before the first paint.
const KEY = "kubeopencode.theme";
const listeners = new Set<() => void>();

function stored(): ThemeChoice {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

let choice: ThemeChoice = stored();

export function chooseTheme(next: ThemeChoice): void {
  choice = next;
  const root = document.documentElement;
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // Storage is off: the choice holds until the page is closed.
  }
  for (const listener of listeners) listener();
}

export function useThemeChoice(): ThemeChoice {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => choice,
  );
}

const darkSystem = () => window.matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark now: for drawings that cannot use the page's own colours. */
export function useDark(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      const media = darkSystem();
      media.addEventListener("change", listener);
      return () => {
        listeners.delete(listener);
        media.removeEventListener("change", listener);
      };
    },
    () => (choice === "system" ? darkSystem().matches : choice === "dark"),
  );
}
