import type { ReactNode } from "react";

const GAP = 12;
const EDGE = 16;

/** The width below which a table scrolls sideways: the smallest widths of its columns and what is between them. */
export function leastWidth(widths: string[]): number {
  const smallest = widths.map((width) => Number.parseInt(/\d+/.exec(width)?.[0] ?? "0", 10));
  return smallest.reduce((sum, width) => sum + width, 0) + GAP * (widths.length - 1) + 2 * EDGE;
}

export interface Column<T> {
  title: string;
  /** Name that the server sorts by; none if it cannot. */
  sort?: string;
  /** Width as a track of a CSS grid: `72px`, or `minmax(90px, 1fr)`. */
  width: string;
  end?: boolean;
  /** Where it stands on a phone: the first line, its right end, the second line, or nowhere. */
  phone: "title" | "side" | "line" | "none";
  cell: (item: T) => ReactNode;
}
