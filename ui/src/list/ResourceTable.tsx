import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp } from "lucide-react";
import { type ReactNode, useEffect, useLayoutEffect, useRef } from "react";
import type { Identified } from "../api/types";
import { useShortcuts } from "../app/shortcuts";
import { classes } from "../components/classes";
import { ErrorState } from "../components/ErrorState";
import { Skeleton } from "../components/Skeleton";
import surface from "../components/surface.module.css";
import { type Column, leastWidth } from "./columns";
import type { ListControls } from "./listState";
import { Pager } from "./Pager";
import styles from "./ResourceTable.module.css";
import { SELECT, SelectAll, selectColumn } from "./selectColumn";
import type { Selection } from "./selection";
import type { Pages } from "./usePages";
import { usePhone } from "./usePhone";

const ROW = 44;
const PHONE_ROW = 68;
const PLACEHOLDERS = 12;
/** Delay before the scroll position is written to the URL. */
const SETTLE_MS = 300;

export interface ResourceTableProps<T> {
  label: string;
  columns: Column<T>[];
  pages: Pages<T>;
  list: ListControls;
  rowKey: (item: T) => string;
  /** Adds a checkbox to each row. */
  selection?: Selection<T>;
  /** Shown above the last rows, for example the actions on the selection. */
  overlay?: ReactNode;
  empty: ReactNode;
}

/** A virtualized table: only visible rows are rendered, and only their pages are fetched. */
export function ResourceTable<T extends Identified>(props: ResourceTableProps<T>) {
  const { label, pages, list, rowKey, selection, overlay, empty } = props;
  const columns = selection ? [selectColumn(selection), ...props.columns] : props.columns;
  const scroller = useRef<HTMLDivElement>(null);
  const focused = useRef(-1);
  const phone = usePhone();
  const height = phone ? PHONE_ROW : ROW;
  const count = pages.loading ? PLACEHOLDERS : pages.total;
  const rows = useVirtualizer({
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 8,
    initialOffset: list.row * height,
    initialRect: { width: 800, height: 600 },
  });
  const visible = rows.getVirtualItems();
  const offset = rows.scrollOffset ?? 0;
  const fits = Math.max(1, Math.floor((rows.scrollRect?.height ?? 600) / height));
  const top = Math.min(Math.max(0, count - 1), Math.round(offset / height));

  const { show } = pages;
  const [first, last] = [visible[0]?.index ?? 0, visible.at(-1)?.index ?? 0];
  useEffect(() => {
    if (!pages.loading) show(first, last);
  });
  useEffect(() => selection?.refresh(pages.loaded()));
  // The list can scroll to the row from the URL only when its length is known.
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the length is known.
  useLayoutEffect(() => {
    if (!pages.loading && list.row > 0) rows.scrollToIndex(list.row, { align: "start" });
  }, [pages.loading]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a changed row height requires a new measurement.
  useEffect(() => rows.measure(), [height]);

  const { row, setRow } = list;
  useEffect(() => {
    if (pages.loading || top === row) return;
    const timer = setTimeout(() => setRow(top), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [top, row, setRow, pages.loading]);

  // A changed filter or sort order removes the row from the URL: scroll to the top.
  const question = JSON.stringify([list.filters, list.sortBy, list.sortOrder]);
  const asked = useRef(question);
  useEffect(() => {
    if (asked.current === question) return;
    asked.current = question;
    focused.current = -1;
    rows.scrollToOffset(0);
  }, [question, rows]);

  const move = (step: number) => {
    if (count === 0) return;
    const next = Math.min(count - 1, Math.max(0, focused.current < 0 ? top : focused.current + step));
    focused.current = next;
    rows.scrollToIndex(next, { align: "auto" });
    // The row may be rendered only in the next frame.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-row="${next}"] a`)?.focus()),
    );
  };
  useShortcuts({ j: () => move(1), k: () => move(-1) });

  if (pages.error) return <ErrorState error={pages.error} onRetry={pages.retry} />;
  if (!pages.loading && pages.total === 0) return empty;

  const tracks = phone ? undefined : { gridTemplateColumns: columns.map((column) => column.width).join(" ") };
  return (
    <div className={classes(surface.raised, styles.frame)}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard. */}
      {/* biome-ignore lint/a11y/useSemanticElements: it is the frame around the table. */}
      <div className={styles.scroller} ref={scroller} tabIndex={0} role="group" aria-label={`${label}, scrollable`}>
        {/* biome-ignore lint/a11y/useSemanticElements: rows are placed one by one, which a table element cannot. */}
        <div
          className={pages.old ? styles.old : undefined}
          style={phone ? undefined : { minWidth: leastWidth(columns.map((column) => column.width)) }}
          role="table"
          aria-label={label}
          aria-rowcount={count + 1}
          aria-busy={pages.loading || pages.old}
        >
          {/* biome-ignore-start lint/a11y/useSemanticElements: as above. */}
          {/* biome-ignore-start lint/a11y/useFocusableInteractive: a row of a table is no control. */}
          <div role="rowgroup" className={styles.top}>
            <div className={styles.head} role="row" aria-rowindex={1} style={tracks}>
              {columns.map((column) => (
                <HeadCell key={column.title} column={column} list={list}>
                  {selection && column.title === SELECT && <SelectAll pages={pages} selection={selection} />}
                </HeadCell>
              ))}
            </div>
          </div>
          <div role="rowgroup" className={styles.body} style={{ height: rows.getTotalSize() }}>
            {visible.map((place) => {
              const item = pages.loading ? undefined : pages.at(place.index);
              return (
                <div
                  key={item ? rowKey(item) : `placeholder-${place.index}`}
                  className={classes(styles.row, item && selection?.has(item) && styles.chosen)}
                  role="row"
                  aria-rowindex={place.index + 2}
                  data-row={place.index}
                  style={{ ...tracks, transform: `translateY(${place.start}px)` }}
                  onFocus={() => {
                    focused.current = place.index;
                  }}
                >
                  {columns.map((column) => (
                    <div
                      key={column.title}
                      role="cell"
                      className={classes(styles.cell, styles[column.phone], column.end && styles.end)}
                    >
                      {item ? column.cell(item) : <Skeleton width={column.phone === "title" ? "70%" : "50%"} />}
                    </div>
                  ))}
                  {phone && <div className={styles.break} role="presentation" />}
                </div>
              );
            })}
          </div>
          {/* biome-ignore-end lint/a11y/useFocusableInteractive: as above. */}
          {/* biome-ignore-end lint/a11y/useSemanticElements: as above. */}
        </div>
      </div>
      {overlay && <div className={styles.overlay}>{overlay}</div>}
      <Pager
        first={top}
        fits={fits}
        total={pages.loading ? undefined : pages.total}
        onGo={(to) => rows.scrollToIndex(to, { align: "start" })}
      />
    </div>
  );
}

interface HeadCellProps<T> {
  column: Column<T>;
  list: ListControls;
  /** Replaces the title. */
  children?: ReactNode;
}

function HeadCell<T>({ column, list, children }: HeadCellProps<T>) {
  const sorted = column.sort !== undefined && list.sortBy === column.sort;
  const Arrow = list.sortOrder === "asc" ? ArrowUp : ArrowDown;
  return (
    // biome-ignore lint/a11y/useSemanticElements: see the table.
    // biome-ignore lint/a11y/useFocusableInteractive: the button inside takes the focus.
    <div
      role="columnheader"
      className={column.end ? styles.end : undefined}
      aria-sort={sorted ? (list.sortOrder === "asc" ? "ascending" : "descending") : undefined}
    >
      {children || column.sort === undefined ? (
        children || column.title
      ) : (
        <button type="button" className={styles.sort} onClick={() => list.setSort(column.sort ?? "")}>
          {column.title}
          {sorted && <Arrow size={12} aria-hidden="true" />}
        </button>
      )}
    </div>
  );
}
