import type { ReactNode } from "react";
import { classes } from "../components/classes";
import surface from "../components/surface.module.css";
import styles from "./FormSection.module.css";

/** A group of form fields. */
export function FormSection({ title, children }: { title: string; children: ReactNode }) {
  return (
    <fieldset className={classes(surface.raised, styles.section)}>
      <legend>{title}</legend>
      {children}
    </fieldset>
  );
}
