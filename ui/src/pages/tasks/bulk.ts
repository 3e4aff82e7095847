import { call, objectPath } from "../../api/client";
import type { Task } from "../../api/types";
import { isFinished } from "../../lib/phase";

export type BulkAction = "stop" | "rerun" | "delete";

/** Requests at the same time. */
const AT_ONCE = 4;

/** The Tasks to which an action applies: a finished Task cannot be stopped, an unfinished one cannot be run again. */
export function applicable(action: BulkAction, tasks: Task[]): Task[] {
  if (action === "stop") return tasks.filter((task) => !isFinished(task.phase) && !task.stopRequested);
  if (action === "rerun") return tasks.filter((task) => isFinished(task.phase));
  return tasks;
}

export interface BulkResult {
  done: Task[];
  failed: { task: Task; message: string }[];
}

/** Applies an action to each Task. A failure does not keep the others from it. */
export async function applyToAll(action: BulkAction, tasks: Task[]): Promise<BulkResult> {
  const result: BulkResult = { done: [], failed: [] };
  const waiting = tasks.slice();
  const work = async () => {
    for (let task = waiting.shift(); task; task = waiting.shift()) {
      const target = objectPath("tasks", task.namespace, task.name);
      try {
        if (action === "delete") await call<void>(target, { method: "DELETE" });
        else await call<Task>(`${target}/${action}`, { method: "POST" });
        result.done.push(task);
      } catch (error) {
        result.failed.push({ task, message: error instanceof Error ? error.message : String(error) });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return result;
}
