import type { ReactNode } from "react";
import styles from "./FormSection.module.css";

/** Two short fields in one row, stacked on narrow screens. */
export function FieldPair({ children }: { children: ReactNode }) {
  return <div className={styles.pair}>{children}</div>;
}
