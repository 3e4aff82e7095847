import { SearchX } from "lucide-react";
import type { ReactNode } from "react";
import type { Query } from "../api/client";
import type { Kind } from "../api/kinds";
import type { Identified } from "../api/types";
import { useNamespace } from "../app/namespace";
import { Page } from "../app/Page";
import { Button } from "../components/Button";
import { EmptyState } from "../components/EmptyState";
import { PageHeader } from "../components/PageHeader";
import type { Column } from "./columns";
import { FilterBar } from "./FilterBar";
import type { ListControls } from "./listState";
import { ResourceTable } from "./ResourceTable";
import { keyOf, type Selection } from "./selection";
import { usePages } from "./usePages";

export interface ResourceListProps<T> {
  kind: Kind;
  title?: string;
  list: ListControls;
  /** Query parameters for the filters; by default the filters themselves. */
  query?: Query;
  columns: Column<T>[];
  actions?: ReactNode;
  /** Whether the first filter also finds titles. */
  search?: boolean;
  /** Additional filters. */
  filters?: ReactNode;
  /** Shown above the filters, for example a selection of kinds. */
  above?: ReactNode;
  /** Adds a checkbox to each row. */
  selection?: Selection<T>;
  /** Shown above the last rows, for example the actions on the selection. */
  overlay?: ReactNode;
  /** Action of the empty state. */
  emptyAction?: ReactNode;
}

/** A list page for any kind. */
export function ResourceList<T extends Identified>(props: ResourceListProps<T>) {
  const { kind, list } = props;
  const [namespace] = useNamespace();
  const pages = usePages<T>(
    kind,
    namespace,
    { ...(props.query ?? list.filters), sortBy: list.sortBy, sortOrder: list.sortOrder },
    list.row,
  );
  const filtered = Object.keys(list.filters).length > 0;
  const title = props.title ?? kind.many;
  return (
    <Page fill>
      <PageHeader title={title} sub={kind.about} actions={props.actions} />
      {props.above}
      <FilterBar list={list} search={props.search}>
        {props.filters}
      </FilterBar>
      <ResourceTable
        label={kind.many}
        columns={props.columns}
        pages={pages}
        list={list}
        rowKey={keyOf}
        selection={props.selection}
        overlay={props.overlay}
        empty={
          filtered ? (
            <EmptyState
              title="No matches"
              icon={<SearchX size={20} />}
              action={<Button onClick={list.clearFilters}>Clear filters</Button>}
            >
              No {kind.one} matches these filters{namespace ? ` in namespace ${namespace}` : ""}.
            </EmptyState>
          ) : (
            <EmptyState title={`No ${kind.many} yet`} action={props.emptyAction}>
              {kind.about}
              {namespace ? ` There is none in namespace ${namespace}.` : ""}
            </EmptyState>
          )
        }
      />
    </Page>
  );
}
