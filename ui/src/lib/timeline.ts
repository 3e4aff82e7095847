import type { Task } from "../api/types";
import { isFinished } from "./phase";
import { secondsBetween } from "./time";

export type StageName = "Queued" | "Preparing" | "Running" | "Collecting";

export interface Stage {
  name: StageName;
  seconds: number;
  /** Not finished. */
  open: boolean;
}

/**
 * The stages of the latest run of a Task. Stages that have not started are absent. The time between the end of the
 * run and the recording of its result is Collecting.
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
    // A finished Task has no open stage: an unfinished stage ends with the Task.
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
