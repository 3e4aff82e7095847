import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ErrorState } from "./ErrorState";
import { SkeletonBlock } from "./SkeletonBlock";

export interface LoadedProps<T> {
  query: UseQueryResult<T>;
  /** Announced to screen readers while loading. */
  label: string;
  /** Number of placeholder lines. */
  lines?: number;
  children: (data: T) => ReactNode;
}

/** The result of a query: placeholder, error or content. */
export function Loaded<T>({ query, label, lines = 8, children }: LoadedProps<T>) {
  if (query.error) return <ErrorState small error={query.error} onRetry={() => query.refetch()} />;
  if (query.data === undefined) return <SkeletonBlock lines={lines} label={`Loading ${label}`} />;
  return children(query.data);
}
