import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ErrorState } from "./ErrorState";
import { SkeletonBlock } from "./SkeletonBlock";

export interface LoadedProps<T> {
  query: UseQueryResult<T>;
  /** What is on its way, for those who hear the page. */
  label: string;
  /** How much room it will take. */
  lines?: number;
  children: (data: T) => ReactNode;
}

/** A part of a page that comes later: its place until then, what went wrong, or the part itself. */
export function Loaded<T>({ query, label, lines = 8, children }: LoadedProps<T>) {
  if (query.error) return <ErrorState small error={query.error} onRetry={() => query.refetch()} />;
  if (query.data === undefined) return <SkeletonBlock lines={lines} label={`Loading ${label}`} />;
  return children(query.data);
}
