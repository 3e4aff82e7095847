const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Seconds between two instants, never negative. */
export function secondsBetween(from: string | number | Date, to: string | number | Date): number {
  return Math.max(0, (new Date(to).getTime() - new Date(from).getTime()) / 1000);
}

/** A time span in its two largest units: `45s`, `1m 5s`, `3h 20m`, `2d 4h`. */
export function span(seconds: number): string {
  const s = Math.round(seconds);
  if (s < MINUTE) return `${s}s`;
  if (s < HOUR) return join(Math.floor(s / MINUTE), "m", s % MINUTE, "s");
  if (s < DAY) return join(Math.floor(s / HOUR), "h", Math.floor((s % HOUR) / MINUTE), "m");
  return join(Math.floor(s / DAY), "d", Math.floor((s % DAY) / HOUR), "h");
}

function join(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit} ${small}${smallUnit}`;
}

/** Relative time in one unit, for tables. */
export function ago(instant: string, now: number): string {
  const seconds = (now - new Date(instant).getTime()) / 1000;
  if (seconds < 0) return `in ${coarse(-seconds)}`;
  if (seconds < 5) return "now";
  return `${coarse(seconds)} ago`;
}

function coarse(seconds: number): string {
  if (seconds < MINUTE) return `${Math.floor(seconds)}s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)}m`;
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)}h`;
  return `${Math.floor(seconds / DAY)}d`;
}

/** Date and time in the local time zone and language. */
export function full(instant: string): string {
  return new Date(instant).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** A duration of the API without zeros: `1h` for `1h0m0s`; any other text is returned unchanged. */
export function formatDuration(duration: string): string {
  const seconds = parseDuration(duration);
  return seconds === undefined ? duration : span(seconds);
}

/** Parses a duration of the API, such as `30m`, `1h30m` or `90s`, to seconds; `undefined` if invalid. */
export function parseDuration(text: string): number | undefined {
  const units: Record<string, number> = { h: HOUR, m: MINUTE, s: 1, ms: 0.001 };
  let total = 0;
  let rest = text.trim();
  if (rest === "") return undefined;
  while (rest !== "") {
    const match = /^(\d+(?:\.\d+)?)(ms|h|m|s)/.exec(rest);
    if (!match) return undefined;
    total += Number(match[1]) * (units[match[2] ?? ""] ?? 0);
    rest = rest.slice(match[0].length);
  }
  return total;
}
