import type { ReactNode } from "react";
import styles from "./Rows.module.css";

export interface Row {
  key: string;
  name: ReactNode;
  /** Aligned to the right. */
  fact: ReactNode;
  below?: ReactNode;
}

/** A compact list of names with one value each. */
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
