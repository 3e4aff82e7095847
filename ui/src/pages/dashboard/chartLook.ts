/** Shared looks of the charts; colours are the page's own and follow the theme. */
export const AXIS = { stroke: "var(--border)", tick: { fill: "var(--text-3)", fontSize: 11 }, tickLine: false };
export const MARGIN = { top: 8, right: 8, bottom: 0, left: -8 };

/** A bucket's start, as short as its size allows. */
export function bucketLabel(start: string, buckets: "hour" | "day"): string {
  const date = new Date(start);
  return buckets === "hour"
    ? date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
}
