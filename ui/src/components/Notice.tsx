import type { ReactNode } from "react";
import type { Tone } from "../lib/phase";
import { classes } from "./classes";
import styles from "./Notice.module.css";
import tones from "./tones.module.css";

export interface NoticeProps {
  tone: Exclude<Tone, "good">;
  icon?: ReactNode;
  action?: ReactNode;
  children: ReactNode;
}

/** A message about the page or a section. */
export function Notice({ tone, icon, action, children }: NoticeProps) {
  return (
    <div className={classes(styles.notice, tones[tone])} role="status">
      {icon}
      <span>{children}</span>
      {action}
    </div>
  );
}
