import type { ReactNode } from "react";
import { classes } from "../components/classes";
import styles from "./Page.module.css";

/** The content area; with `fill` it takes the full height and its children scroll. */
export function Page({ fill, children }: { fill?: boolean; children: ReactNode }) {
  return <div className={classes(styles.page, fill && styles.fill)}>{children}</div>;
}
