import { useEffect, useRef } from "react";

export type Shortcuts = Record<string, () => void>;

/** The second key of a pair must follow within this time. */
const PAIR_MS = 1_200;

/** Whether the focused element handles keys itself: an input, an editor, a terminal, an open dialog. */
function isTaken(event: KeyboardEvent): boolean {
  return event.composedPath().some((target) => {
    if (!(target instanceof Element)) return false;
    return target.matches(
      "input, textarea, select, dialog, [contenteditable='true'], .cm-editor, .xterm, [role='menu']",
    );
  });
}

const shown: { current: Shortcuts }[] = [];
let pending: { key: string; at: number } | undefined;

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.altKey || event.metaKey || isTaken(event)) return;
  const pair = pending && event.timeStamp - pending.at < PAIR_MS ? `${pending.key} ${event.key}` : undefined;
  pending = undefined;
  for (const wanted of [pair, event.key]) {
    if (wanted === undefined) continue;
    // The innermost component takes precedence.
    const run = shown.toReversed().find((map) => wanted in map.current)?.current[wanted];
    if (run) {
      event.preventDefault();
      run();
      return;
    }
  }
  const starts = shown.some((map) => Object.keys(map.current).some((keys) => keys.startsWith(`${event.key} `)));
  if (starts) pending = { key: event.key, at: event.timeStamp };
}

/**
 * Shortcuts while a component is mounted: a single key (`j`) or a sequence (`g t`).
 * They never fire in inputs or together with Ctrl, Alt or Meta.
 */
export function useShortcuts(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  useEffect(() => {
    if (shown.length === 0) window.addEventListener("keydown", onKey);
    shown.push(latest);
    return () => {
      shown.splice(shown.indexOf(latest), 1);
      if (shown.length === 0) window.removeEventListener("keydown", onKey);
    };
  }, []);
}

/** Runs an action on Ctrl-K or Cmd-K, also in inputs; editors and terminals keep the key. */
export function useCommandKey(run: () => void): void {
  const latest = useRef(run);
  useEffect(() => {
    latest.current = run;
  });
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey)
        return;
      const kept = event.composedPath().some((at) => at instanceof Element && at.matches(".cm-editor, .xterm"));
      if (kept) return;
      event.preventDefault();
      latest.current();
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
}

/** Focuses the filter of the page, if any. */
export function focusFilter(): void {
  document.querySelector<HTMLInputElement>("[data-filter]")?.focus();
}
