import { CircleCheck, CircleMinus, CircleX } from "lucide-react";
import type { Condition } from "../api/types";
import { humanize, sentence } from "../lib/format";
import { Ago } from "./Ago";
import styles from "./ConditionList.module.css";
import { classes } from "./classes";
import { EmptyState } from "./EmptyState";

/** Conditions whose normal status is `False`. */
const NORMAL_WHEN_FALSE = new Set([
  "Queued",
  "Stopped",
  "Suspended",
  "AwaitingApproval",
  "Blocked",
  "Disrupted",
  "GitSyncPending",
]);

export function ConditionList({ conditions }: { conditions: Condition[] | undefined }) {
  if (!conditions || conditions.length === 0) {
    return (
      <EmptyState small title="No conditions yet">
        Conditions appear after the first reconciliation.
      </EmptyState>
    );
  }
  return (
    <ul className={styles.list}>
      {conditions.map((condition) => {
        const normal = NORMAL_WHEN_FALSE.has(condition.type);
        const variant =
          condition.status === "Unknown" ? "unknown" : normal ? "normal" : condition.status === "True" ? "yes" : "no";
        const Icon =
          condition.status === "True" ? CircleCheck : condition.status === "False" && !normal ? CircleX : CircleMinus;
        return (
          <li key={condition.type} className={classes(styles.item, styles[variant])}>
            <Icon size={15} aria-hidden="true" />
            <span>
              <strong>{humanize(condition.type)}</strong>:{" "}
              {condition.status === "True" ? "yes" : condition.status === "False" ? "no" : "unknown"}
              {condition.reason && <span className="quiet"> · {humanize(condition.reason)}</span>}
            </span>
            <span className={styles.when}>
              <Ago at={condition.lastTransitionTime} />
            </span>
            {condition.message && <span className={styles.message}>{sentence(condition.message)}</span>}
          </li>
        );
      })}
    </ul>
  );
}
