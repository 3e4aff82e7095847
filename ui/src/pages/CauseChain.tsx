import { CircleCheck, CircleX, Clock3, Info } from "lucide-react";
import type { Cause, CauseLevel } from "../api/types";
import { Ago } from "../components/Ago";
import { classes } from "../components/classes";
import { ObjectLink } from "../components/ObjectLink";
import { humanize, sentence } from "../lib/format";
import styles from "./CauseChain.module.css";

const ICONS: Record<CauseLevel, typeof Info> = { info: Info, wait: Clock3, error: CircleX, done: CircleCheck };
const LEVEL_LABELS: Record<CauseLevel, string> = { info: "Note", wait: "Waiting", error: "Error", done: "Done" };

/** Drops repeated causes: two conditions of an object may have the same reason. */
const isNew = (cause: Cause, i: number, chain: Cause[]) =>
  cause.reason !== chain[i - 1]?.reason || cause.message !== chain[i - 1]?.message;

/** The causes of a status, down to the root cause. */
export function CauseChain({ chain, namespace }: { chain: Cause[]; namespace: string }) {
  return (
    <ol className={styles.chain}>
      {chain.filter(isNew).map((cause, i) => {
        const Icon = ICONS[cause.level] ?? Info;
        return (
          <li key={`${cause.reason}-${cause.message}`} className={classes(styles.cause, styles[cause.level])}>
            <Icon size={16} role="img" aria-label={LEVEL_LABELS[cause.level]} />
            <div>
              {i > 0 && <div className={styles.because}>because</div>}
              <div className={styles.message}>{sentence(cause.message)}</div>
              <div className={styles.meta}>
                {cause.reason && <span>{humanize(cause.reason)}</span>}
                {cause.object && (
                  <ObjectLink
                    kind={cause.object.kind}
                    namespace={cause.object.namespace ?? namespace}
                    name={cause.object.name}
                    withKind
                  />
                )}
                {cause.since && (
                  <span>
                    <Ago at={cause.since} />
                  </span>
                )}
              </div>
            </div>
          </li>
        );
      })}
    </ol>
  );
}
