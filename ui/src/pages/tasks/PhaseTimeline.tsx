import { useState } from "react";
import type { Task } from "../../api/types";
import { classes } from "../../components/classes";
import { Legend } from "../../components/Legend";
import motion from "../../components/motion.module.css";
import { useNow } from "../../components/useNow";
import { isCollecting } from "../../lib/phase";
import { span } from "../../lib/time";
import { type StageName, stagesOf } from "../../lib/timeline";
import styles from "./PhaseTimeline.module.css";

const COLOURS: Record<StageName, string> = {
  Queued: "var(--warn)",
  Preparing: "var(--chart-2)",
  Running: "var(--accent)",
  Collecting: "var(--good)",
};

/** Since when something holds, as far as the page has seen. */
function useSince(holds: boolean, now: number): number | undefined {
  const [since, setSince] = useState<number>();
  if (holds && since === undefined) setSince(now);
  if (!holds && since !== undefined) setSince(undefined);
  return since;
}

/** A bar of the time spent queued, preparing, running and collecting. */
export function PhaseTimeline({ task }: { task: Task }) {
  const now = useNow();
  const stages = stagesOf(task, now, useSince(isCollecting(task), now));
  const total = stages.reduce((sum, stage) => sum + stage.seconds, 0);
  if (stages.length === 0) return null;
  const label = stages.map((stage) => `${stage.name} ${span(stage.seconds)}${stage.open ? " so far" : ""}`).join(", ");
  return (
    <div className={styles.timeline}>
      <div className={styles.bar} role="img" aria-label={label}>
        {stages.map((stage) => (
          <div
            key={stage.name}
            // Stages also differ in texture, for colour-blind users.
            className={classes(styles.stage, stage.name === "Queued" && styles.striped, stage.open && motion.pulse)}
            style={{ flexGrow: Math.max(stage.seconds, total / 200, 0.001), backgroundColor: COLOURS[stage.name] }}
            title={`${stage.name}: ${span(stage.seconds)}`}
          />
        ))}
      </div>
      <div className={styles.legend} aria-hidden="true">
        <Legend entries={stages.map(({ name, seconds }) => ({ name, colour: COLOURS[name], value: span(seconds) }))} />
        <span className="quiet">{span(total)} total</span>
      </div>
    </div>
  );
}
