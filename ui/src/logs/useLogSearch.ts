import { useEffect, useMemo, useState } from "react";
import type { EarlierLines, Place } from "./earlier";
import { findAll, type LogLine } from "./lines";

/** After this time, the search lets the page react to input. */
const SLICE_MS = 12;
/** While a person types, only the shown lines are searched. */
const PAUSE_MS = 250;
/** The search ends at this number of matches. */
export const MAX_MATCHES = 100_000;

export interface LogSearch {
  /** In the order of the log. */
  matches: Place[];
  /** Part of the earlier lines that were searched, from 0 to 1; `undefined` if all were. */
  progress: number | undefined;
  /** Earlier lines were not all searched, because there are too many matches or the user cancelled. */
  isPartial: boolean;
  cancel: () => void;
}

interface Earlier {
  text: string;
  matches: Place[];
  /** Number of the line to go on with. */
  next: number;
  stopped: boolean;
}

const NOTHING: Earlier = { text: "", matches: [], next: 1, stopped: false };

/** Searches a whole log: the shown lines at once, earlier lines piece by piece. */
export function useLogSearch(lines: LogLine[], earlier: EarlierLines, dropped: number, text: string): LogSearch {
  const wanted = text.toLowerCase();
  const shown = useMemo(() => findAll(lines, text), [lines, text]);
  const [state, setState] = useState(NOTHING);
  const before = state.text === wanted ? state : NOTHING;
  const [stoppedFor, setStoppedFor] = useState<string>();

  // biome-ignore lint/correctness/useExhaustiveDependencies: earlier lines only grow, which `dropped` tells.
  useEffect(() => {
    if (wanted === "" || dropped === 0 || stoppedFor === wanted) return;
    const known = state.text === wanted ? state : { ...NOTHING, text: wanted, next: earlier.first };
    if (known.stopped) return;
    let timer: ReturnType<typeof setTimeout>;
    let { next } = known;
    const matches = known.matches.slice();
    const step = () => {
      const until = performance.now() + SLICE_MS;
      let stopped = false;
      while (performance.now() < until) {
        const block = earlier.searchBlock(next, wanted);
        if (!block) break;
        next = block.next;
        for (const place of block.found) matches.push(place);
        stopped = matches.length >= MAX_MATCHES;
        if (stopped) break;
      }
      setState({ text: wanted, matches: matches.slice(), next, stopped });
      if (!stopped && next < earlier.end) timer = setTimeout(step);
    };
    timer = setTimeout(step, state.text === wanted ? 0 : PAUSE_MS);
    return () => clearTimeout(timer);
  }, [wanted, earlier, dropped, stoppedFor]);

  const cancelled = stoppedFor === wanted;
  const isWaiting = wanted !== "" && dropped > 0 && before.next <= dropped && !before.stopped;
  return {
    matches: useMemo(() => [...before.matches, ...shown], [before.matches, shown]),
    progress: isWaiting && !cancelled ? (before.next - earlier.first) / Math.max(1, earlier.count) : undefined,
    isPartial: wanted !== "" && (before.stopped || (cancelled && isWaiting)),
    cancel: () => setStoppedFor(wanted),
  };
}
