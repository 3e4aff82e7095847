import { TASK } from "../../api/kinds";
import { useAction } from "../../api/objects";
import type { Task } from "../../api/types";
import { ConfirmDialog } from "../../components/ConfirmDialog";
import { toast } from "../../components/toast";

/** Asks for confirmation before a Task is stopped. */
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
              toast.done("Stopping the Task …");
            },
          },
        )
      }
    >
      {task.phase === "Running"
        ? "The agent stops. Its changes and its log are kept. The Task can be run again."
        : "The Task will not start. It can be run again later."}
    </ConfirmDialog>
  );
}
