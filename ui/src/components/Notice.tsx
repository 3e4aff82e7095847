import type { ReactNode } from "react";
import { classes } from "./classes";
import styles from "./Notice.module.css";

export interface NoticeProps {
  tone: "warn" | "busy" | "idle";
  icon?: ReactNode;
  action?: ReactNode;
  children: ReactNode;
}

/** Something a person should know about the whole page or part. */
export function Notice({ tone, icon, action, children }: NoticeProps) {
  return (
    <div className={classes(styles.notice, styles[tone])} role="status">
      {icon}
      <span>{children}</span>
      {action}
    </div>
  );
}
