import { Square, Trash2 } from "lucide-react";
import type { Task } from "../../api/types";
import { IconButton } from "../../components/IconButton";
import { isFinished } from "../../lib/phase";
import type { Column } from "../../list/columns";

export type TaskQuestion = { ask: "stop" | "delete"; task: Task };

/** Stop and delete buttons in the list. */
export function taskActionColumn(onAsk: (question: TaskQuestion) => void): Column<Task> {
  return {
    title: "Actions",
    width: "64px",
    end: true,
    phone: "none",
    cell: (task) => (
      <>
        {!isFinished(task.phase) && (
          <IconButton
            small
            label={`Stop ${task.name}`}
            icon={<Square size={13} />}
            disabled={task.stopRequested}
            onClick={() => onAsk({ ask: "stop", task })}
          />
        )}
        <IconButton
          small
          label={`Delete ${task.name}`}
          icon={<Trash2 size={14} />}
          onClick={() => onAsk({ ask: "delete", task })}
        />
      </>
    ),
  };
}
