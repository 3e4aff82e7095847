import type { ReactNode } from "react";
import styles from "./Legend.module.css";

export interface LegendEntry {
  name: string;
  colour: string;
  /** Shown after the name. */
  value?: ReactNode;
}

/** The legend of a chart. */
export function Legend({ entries }: { entries: LegendEntry[] }) {
  return (
    <ul className={styles.legend}>
      {entries.map(({ name, colour, value }) => (
        <li key={name}>
          <span className={styles.dot} style={{ background: colour }} />
          {name}
          {value !== undefined && <strong>{value}</strong>}
        </li>
      ))}
    </ul>
  );
}
