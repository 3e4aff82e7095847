import { TASK } from "../../api/kinds";
import { useAction } from "../../api/objects";
import type { Task } from "../../api/types";
import { ConfirmDialog } from "../../components/ConfirmDialog";
import { toast } from "../../components/toast";

/** Asks before a Task is stopped and says what stays. */
export function StopDialog({ task, open, onClose }: { task: Task; open: boolean; onClose: () => void }) {
  const stop = useAction<Task>(TASK, "stop");
  return (
    <ConfirmDialog
      title={`Stop Task ${task.name}?`}
      open={open}
      confirm="Stop the Task"
      busy={stop.isPending}
      error={stop.error}
      onClose={() => {
        stop.reset();
        onClose();
      }}
      onConfirm={() =>
        stop.mutate(
          { namespace: task.namespace, name: task.name },
          {
            onSuccess: () => {
              onClose();
              toast.done("The Task is being stopped.");
            },
          },
        )
      }
    >
      {task.phase === "Running"
        ? "The agent is told to stop. What it changed so far stays, and so does its log. It can be run again."
        : "It will not start. It can be run again later."}
    </ConfirmDialog>
  );
}
