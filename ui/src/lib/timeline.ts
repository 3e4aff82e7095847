import type { Task } from "../api/types";
import { isFinished } from "./phase";
import { secondsBetween } from "./time";

export type StageName = "Queued" | "Preparing" | "Running" | "Collecting";

export interface Stage {
  name: StageName;
  seconds: number;
  /** Still going on. */
  open: boolean;
}

/**
 * The stages of a Task's latest run. A stage that has not begun is absent. What lies between the end of the
 * run and the moment its result was recorded is Collecting.
 */
export function stagesOf(task: Task, now: number): Stage[] {
  const { queuedAt, admittedAt } = task.timings ?? {};
  const finished = isFinished(task.phase);
  const queuedFrom = queuedAt ?? task.createdAt;
  const end = task.completionTime;
  const recorded = task.conditions?.find(
    (condition) => condition.type === "ResultRecorded" && condition.status === "True",
  )?.lastTransitionTime;
  const stages: Stage[] = [];
  const add = (name: StageName, from: string | undefined, to: string | undefined) => {
    if (!from) return;
    // A finished Task has no open stage: what never ended was cut by the end of the Task.
    const until = to ?? (finished ? end : undefined);
    if (finished && !until) return;
    stages.push({ name, seconds: secondsBetween(from, until ?? now), open: until === undefined });
  };
  add("Queued", queuedFrom, admittedAt ?? task.startTime);
  add("Preparing", admittedAt, task.startTime);
  add("Running", task.startTime, end);
  if (end && recorded && secondsBetween(end, recorded) > 0) add("Collecting", end, recorded);
  return stages;
}
