import type { ReactNode } from "react";
import { classes } from "./classes";
import styles from "./Stack.module.css";

export interface StackProps {
  gap?: 1 | 2 | 3 | 4 | 5;
  /** Horizontal instead of vertical. */
  row?: boolean;
  className?: string;
  children: ReactNode;
}

export function Stack({ gap = 4, row, className, children }: StackProps) {
  return <div className={classes(row ? styles.row : styles.stack, styles[`gap${gap}`], className)}>{children}</div>;
}
