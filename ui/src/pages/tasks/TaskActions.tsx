import { Copy, RotateCcw, Square } from "lucide-react";
import { useState } from "react";
import { useNavigate } from "react-router";
import { TASK } from "../../api/kinds";
import { useAction } from "../../api/objects";
import { useRights } from "../../api/rights";
import type { Task } from "../../api/types";
import { Button } from "../../components/Button";
import { toast } from "../../components/toast";
import { isFinished } from "../../lib/phase";
import { StopDialog } from "./StopDialog";

/** The action buttons of a Task. */
export function TaskActions({ task }: { task: Task }) {
  const navigate = useNavigate();
  const may = useRights(task.namespace);
  const rerun = useAction<Task>(TASK, "rerun");
  const [asking, setAsking] = useState(false);
  const duplicate = () =>
    navigate(`/tasks/create?rerun=${encodeURIComponent(task.name)}&namespace=${encodeURIComponent(task.namespace)}`);

  return (
    <>
      {isFinished(task.phase) ? (
        <Button
          icon={<RotateCcw size={14} />}
          busy={rerun.isPending}
          disabled={!may("update tasks")}
          onClick={() =>
            rerun.mutate(
              { namespace: task.namespace, name: task.name },
              { onSuccess: () => toast.done("Rerun requested."), onError: toast.failed },
            )
          }
        >
          Run again
        </Button>
      ) : (
        <Button
          icon={<Square size={14} />}
          disabled={task.stopRequested || !may("update tasks")}
          onClick={() => setAsking(true)}
        >
          {task.stopRequested ? "Stopping" : "Stop"}
        </Button>
      )}
      <Button icon={<Copy size={14} />} disabled={!may("create tasks")} onClick={duplicate}>
        Duplicate
      </Button>
      <StopDialog task={task} open={asking} onClose={() => setAsking(false)} />
    </>
  );
}
