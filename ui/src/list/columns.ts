import type { ReactNode } from "react";

const GAP = 12;
const EDGE = 16;

/** The minimum width of a table, below which it scrolls: the minimum widths of its columns plus gaps. */
export function leastWidth(widths: string[]): number {
  const smallest = widths.map((width) => Number.parseInt(/\d+/.exec(width)?.[0] ?? "0", 10));
  return smallest.reduce((sum, width) => sum + width, 0) + GAP * (widths.length - 1) + 2 * EDGE;
}

export interface Column<T> {
  title: string;
  /** Value of `sortBy`; absent if the server cannot sort by this column. */
  sort?: string;
  /** Width as a track of a CSS grid: `72px`, or `minmax(90px, 1fr)`. */
  width: string;
  end?: boolean;
  /** Position on a phone: before the first line, first line, its right end, second line, or hidden. */
  phone: "lead" | "title" | "side" | "line" | "none";
  cell: (item: T) => ReactNode;
}
