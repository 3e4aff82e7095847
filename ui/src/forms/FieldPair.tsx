import type { ReactNode } from "react";
import styles from "./FormSection.module.css";

/** Short fields side by side, one below the other when it is narrow. */
export function FieldPair({ children }: { children: ReactNode }) {
  return <div className={styles.pair}>{children}</div>;
}
