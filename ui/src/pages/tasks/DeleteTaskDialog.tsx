import { TASK } from "../../api/kinds";
import type { Task } from "../../api/types";
import { plural } from "../../lib/format";
import { isFinished } from "../../lib/phase";
import { DeleteDialog } from "../DeleteDialog";

/** What is deleted with a Task. */
export function removedWith(task: Task): string[] {
  return [
    `the Task ${task.name} and its status`,
    ...(isFinished(task.phase) ? [] : ["the current run, which is stopped first"]),
    ...(task.podName ? [`its Pod ${task.podName}`] : []),
    task.logs?.lines ? `its log (${plural(task.logs.lines, "line")})` : "its log",
    ...(task.contexts?.length ? [`the ConfigMap ${task.name}-context with its contexts`] : []),
  ];
}

export interface DeleteTaskDialogProps {
  task: Task;
  open: boolean;
  onClose: () => void;
  leaveTo?: string;
}

/** Asks for confirmation and lists everything that is deleted with a Task. */
export function DeleteTaskDialog({ task, open, onClose, leaveTo }: DeleteTaskDialogProps) {
  return (
    <DeleteDialog
      kind={TASK}
      namespace={task.namespace}
      name={task.name}
      open={open}
      consequences={removedWith(task)}
      leaveTo={leaveTo}
      onClose={onClose}
    />
  );
}
