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

const darkSystem = () => window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (choice === "system" ? darkSystem().matches : choice === "dark");

/** Applies the current theme. */
function apply(): void {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  for (const listener of listeners) listener();
}

darkSystem().addEventListener("change", apply);

export function chooseTheme(next: ThemeChoice): void {
  choice = next;
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // Storage is disabled: the selection lasts until the page is closed.
  }
  apply();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useThemeChoice(): ThemeChoice {
  return useSyncExternalStore(listen, () => choice);
}

/** Whether the theme is dark: for canvases, which cannot use CSS variables. */
export function useDark(): boolean {
  return useSyncExternalStore(listen, isDark);
}
