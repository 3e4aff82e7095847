import type { ReactNode } from "react";
import { classes } from "../components/classes";
import styles from "./Page.module.css";

/** The space of a page; `fill` takes the whole height for lists that scroll inside. */
export function Page({ fill, children }: { fill?: boolean; children: ReactNode }) {
  return <div className={classes(styles.page, fill && styles.fill)}>{children}</div>;
}
