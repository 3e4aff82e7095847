import type { ReactNode } from "react";
import styles from "./FormSection.module.css";

/** Fields that belong together. */
export function FormSection({ title, children }: { title: string; children: ReactNode }) {
  return (
    <fieldset className={styles.section}>
      <legend>{title}</legend>
      {children}
    </fieldset>
  );
}
