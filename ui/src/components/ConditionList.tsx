import { CircleCheck, CircleMinus, CircleX } from "lucide-react";
import type { Condition } from "../api/types";
import { sentence, words } from "../lib/format";
import { Ago } from "./Ago";
import styles from "./ConditionList.module.css";
import { classes } from "./classes";
import { EmptyState } from "./EmptyState";

/** Conditions whose `False` is the ordinary case, not a fault. */
const CALM_WHEN_FALSE = new Set(["Queued", "Stopped", "Suspended", "AwaitingApproval", "Disrupted", "GitSyncPending"]);

export function ConditionList({ conditions }: { conditions: Condition[] | undefined }) {
  if (!conditions || conditions.length === 0) {
    return (
      <EmptyState small title="No conditions yet">
        They appear as soon as the controller has looked at it.
      </EmptyState>
    );
  }
  return (
    <ul className={styles.list}>
      {conditions.map((condition) => {
        const calm = CALM_WHEN_FALSE.has(condition.type);
        const look =
          condition.status === "Unknown" ? "unknown" : calm ? "calm" : condition.status === "True" ? "yes" : "no";
        const Icon =
          condition.status === "True" ? CircleCheck : condition.status === "False" && !calm ? CircleX : CircleMinus;
        return (
          <li key={condition.type} className={classes(styles.item, styles[look])}>
            <Icon size={15} aria-hidden="true" />
            <span>
              <strong>{words(condition.type)}</strong>:{" "}
              {condition.status === "True" ? "yes" : condition.status === "False" ? "no" : "unknown"}
              {condition.reason && <span className="quiet"> · {words(condition.reason)}</span>}
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
