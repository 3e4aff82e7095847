import type { ReactNode } from "react";
import styles from "./Tag.module.css";

/** A short label. */
export function Tag({ children, title }: { children: ReactNode; title?: string }) {
  return (
    <span className={styles.tag} title={title}>
      {children}
    </span>
  );
}
