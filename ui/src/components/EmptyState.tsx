import { Inbox } from "lucide-react";
import type { ReactNode } from "react";
import { classes } from "./classes";
import styles from "./EmptyState.module.css";

export interface EmptyStateProps {
  title: string;
  icon?: ReactNode;
  action?: ReactNode;
  /** For use inside a card. */
  small?: boolean;
  children?: ReactNode;
}

/** Placeholder for an empty list or page, with an optional action. */
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
