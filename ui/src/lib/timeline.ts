import type { Task } from "../api/types";
import { isCollecting, isFinished } from "./phase";
import { secondsBetween } from "./time";

export type StageName = "Queued" | "Preparing" | "Running" | "Collecting";

export interface Stage {
  name: StageName;
  seconds: number;
  /** Not finished. */
  open: boolean;
}

/**
 * The stages of the latest run of a Task. Stages that have not started are absent. Collecting is the time between the
 * end of the agent and the storage of what the run leaves. `collectingSince`: since when the page knows that a running
 * Task is collecting, which its status does not say.
 */
export function stagesOf(task: Task, now: number, collectingSince = now): Stage[] {
  const { queuedAt, admittedAt, collectedAt } = task.timings ?? {};
  const finished = isFinished(task.phase);
  const queuedFrom = queuedAt ?? task.createdAt;
  const end = task.completionTime ?? (isCollecting(task) ? new Date(collectingSince).toISOString() : undefined);
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
  if (isCollecting(task)) add("Collecting", end, undefined);
  else if (end && collectedAt && secondsBetween(end, collectedAt) > 0) add("Collecting", end, collectedAt);
  return stages;
}
