import type { Task } from "../../api/types";
import { classes } from "../../components/classes";
import { useNow } from "../../components/useNow";
import { span } from "../../lib/time";
import { stagesOf } from "../../lib/timeline";
import styles from "./PhaseTimeline.module.css";

/** Where the time went: queued, preparing, running, collecting, as parts of one bar. */
export function PhaseTimeline({ task }: { task: Task }) {
  const now = useNow();
  const stages = stagesOf(task, now);
  const total = stages.reduce((sum, stage) => sum + stage.seconds, 0);
  if (stages.length === 0) return null;
  const spoken = stages.map((stage) => `${stage.name} ${span(stage.seconds)}${stage.open ? " so far" : ""}`).join(", ");
  return (
    <div className={styles.timeline}>
      <div className={styles.bar} role="img" aria-label={spoken}>
        {stages.map((stage) => (
          <div
            key={stage.name}
            className={classes(styles.stage, styles[stage.name], stage.open && styles.open)}
            style={{ flexGrow: Math.max(stage.seconds, total / 200, 0.001) }}
            title={`${stage.name}: ${span(stage.seconds)}`}
          />
        ))}
      </div>
      <ul className={styles.legend} aria-hidden="true">
        {stages.map((stage) => (
          <li key={stage.name}>
            <span className={classes(styles.dot, styles[stage.name])} />
            {stage.name} <strong>{span(stage.seconds)}</strong>
          </li>
        ))}
        <li className={styles.total}>{span(total)} in all</li>
      </ul>
    </div>
  );
}
