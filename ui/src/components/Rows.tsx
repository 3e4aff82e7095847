import type { ReactNode } from "react";
import styles from "./Rows.module.css";

export interface Row {
  key: string;
  name: ReactNode;
  /** At the other end of the line. */
  fact: ReactNode;
  below?: ReactNode;
}

/** A few names with one fact each, where a table would be too much. */
export function Rows({ rows }: { rows: Row[] }) {
  return (
    <ul className={styles.rows}>
      {rows.map(({ key, name, fact, below }) => (
        <li key={key}>
          <div className={styles.row}>
            <span className={styles.name}>{name}</span>
            {fact}
          </div>
          {below}
        </li>
      ))}
    </ul>
  );
}
