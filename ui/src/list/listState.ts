import { useCallback } from "react";
import { useAddress } from "../app/address";

export interface ListState {
  /** Filters by name of the query parameter. */
  filters: Record<string, string>;
  sortBy: string;
  sortOrder: "asc" | "desc";
  /** First visible row. */
  row: number;
}

export interface ListControls extends ListState {
  setFilter: (name: string, value: string) => void;
  /** Changes several filters at once. */
  setFilters: (values: Record<string, string>) => void;
  clearFilters: () => void;
  setSort: (by: string) => void;
  setRow: (row: number) => void;
}

/** State of a list, parsed from the URL, so that it can be shared as a link. */
export function readState(
  params: URLSearchParams,
  filters: string[],
  sort: { by: string; order: "asc" | "desc" },
): ListState {
  const sorted = params.get("sort");
  return {
    filters: Object.fromEntries(filters.flatMap((name) => (params.get(name) ? [[name, params.get(name) ?? ""]] : []))),
    sortBy: sorted ? sorted.replace(/^-/, "") : sort.by,
    sortOrder: sorted ? (sorted.startsWith("-") ? "desc" : "asc") : sort.order,
    row: Math.max(0, Number.parseInt(params.get("row") ?? "0", 10) || 0),
  };
}

export function useListState(
  filterNames: string[],
  sort: { by: string; order: "asc" | "desc" } = { by: "createdAt", order: "desc" },
): ListControls {
  const [params, change] = useAddress();
  const state = readState(params, filterNames, sort);

  const setFilters = (values: Record<string, string>) =>
    change((next) => {
      for (const [name, value] of Object.entries(values)) {
        if (value === "") next.delete(name);
        else next.set(name, value);
      }
      next.delete("row");
    });

  return {
    ...state,
    setFilter: (name, value) => setFilters({ [name]: value }),
    setFilters,
    clearFilters: () =>
      change((next) => {
        for (const name of filterNames) next.delete(name);
        next.delete("row");
      }),
    setSort: (by) =>
      change((next) => {
        const descending = state.sortBy === by && state.sortOrder === "asc";
        next.set("sort", descending ? `-${by}` : by);
        next.delete("row");
      }),
    setRow: useCallback(
      (row: number) =>
        change((next) => {
          if (row <= 0) next.delete("row");
          else next.set("row", String(row));
        }),
      [change],
    ),
  };
}
