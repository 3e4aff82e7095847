import { CircleCheck } from "lucide-react";
import { Link } from "react-router";
import { classes } from "../../components/classes";
import { EmptyState } from "../../components/EmptyState";
import { Rows } from "../../components/Rows";
import { humanize } from "../../lib/format";
import styles from "./ReasonBars.module.css";

export interface ReasonBarsProps {
  reasons: Record<string, number>;
  tone: "warn" | "bad";
  /** Path of the list of Tasks with a reason. */
  to: (reason: string) => string;
  empty: string;
}

/** Reasons by frequency. */
export function ReasonBars({ reasons, tone, to, empty }: ReasonBarsProps) {
  const entries = Object.entries(reasons).sort((a, b) => b[1] - a[1]);
  const most = entries[0]?.[1] ?? 1;
  if (entries.length === 0) return <EmptyState small icon={<CircleCheck size={20} />} title={empty} />;
  return (
    <Rows
      rows={entries.map(([reason, times]) => ({
        key: reason,
        name: <Link to={to(reason)}>{humanize(reason)}</Link>,
        fact: <strong>{times}</strong>,
        below: (
          <div className={styles.track} aria-hidden="true">
            <div className={classes(styles.bar, styles[tone])} style={{ width: `${(times / most) * 100}%` }} />
          </div>
        ),
      }))}
    />
  );
}
