import { Inbox } from "lucide-react";
import type { ReactNode } from "react";
import { classes } from "./classes";
import styles from "./EmptyState.module.css";

export interface EmptyStateProps {
  title: string;
  icon?: ReactNode;
  action?: ReactNode;
  /** Inside a card instead of a whole page. */
  small?: boolean;
  children?: ReactNode;
}

/** Nothing here, why, and what to do about it. */
export function EmptyState({ title, icon, action, small, children }: EmptyStateProps) {
  return (
    <div className={classes(styles.empty, small && styles.small)}>
      <div className={styles.icon} aria-hidden="true">
        {icon ?? <Inbox size={20} />}
      </div>
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {action && <div className={styles.action}>{action}</div>}
    </div>
  );
}
