import type { ReactNode } from "react";
import styles from "./SimpleTable.module.css";

export interface SimpleTableProps {
  label: string;
  head: string[];
  rows: { key: string; cells: ReactNode[] }[];
  /** Columns that are hidden on a phone. */
  wide?: string[];
}

/** A short table without sorting. */
export function SimpleTable({ label, head, rows, wide = [] }: SimpleTableProps) {
  const classOf = (title: string | undefined) => (title && wide.includes(title) ? styles.wide : undefined);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls horizontally on a phone.
    // biome-ignore lint/a11y/useSemanticElements: it is the frame around a table, not a section.
    <div className={styles.wrap} role="group" aria-label={label} tabIndex={0}>
      <table className={styles.table}>
        <thead>
          <tr>
            {head.map((title) => (
              <th key={title} scope="col" className={classOf(title)}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              {row.cells.map((cell, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
                <td key={i} className={classOf(head[i])}>
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
