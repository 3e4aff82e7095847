import { useState } from "react";
import type { Identified } from "../api/types";

/** The selected rows of a list. */
export interface Selection<T> {
  items: T[];
  has: (item: T) => boolean;
  set: (items: T[], selected: boolean) => void;
  clear: () => void;
  /** Replaces selected objects by newer versions. */
  refresh: (items: T[]) => void;
}

export function keyOf({ namespace, name }: Identified): string {
  return `${namespace}/${name}`;
}

/** Selected objects by name. They stay selected while filters and pages change. */
export function useSelection<T extends Identified>(): Selection<T> {
  const [chosen, setChosen] = useState<Map<string, T>>(new Map());
  return {
    items: [...chosen.values()],
    has: (item) => chosen.has(keyOf(item)),
    set: (items, selected) =>
      setChosen((previous) => {
        const next = new Map(previous);
        for (const item of items) {
          if (selected) next.set(keyOf(item), item);
          else next.delete(keyOf(item));
        }
        return next;
      }),
    clear: () => setChosen(new Map()),
    refresh: (items) =>
      setChosen((previous) => {
        const newer = items.filter((item) => previous.has(keyOf(item)) && previous.get(keyOf(item)) !== item);
        return newer.length === 0
          ? previous
          : new Map([...previous, ...newer.map((item): [string, T] => [keyOf(item), item])]);
      }),
  };
}
