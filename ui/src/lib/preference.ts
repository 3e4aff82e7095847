import { useState } from "react";

/** A choice that is remembered in this browser. */
export function usePreference<T extends string>(name: string, choices: readonly T[], first: T): [T, (next: T) => void] {
  const key = `kubeopencode.${name}`;
  const [choice, setChoice] = useState<T>(() => {
    try {
      const stored = localStorage.getItem(key);
      return choices.find((known) => known === stored) ?? first;
    } catch {
      return first;
    }
  });
  const choose = (next: T) => {
    setChoice(next);
    try {
      localStorage.setItem(key, next);
    } catch {
      // Storage is disabled: the choice lasts until the view is closed.
    }
  };
  return [choice, choose];
}
