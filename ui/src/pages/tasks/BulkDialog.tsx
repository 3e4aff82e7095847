import { useMutation, useQueryClient } from "@tanstack/react-query";
import { keys } from "../../api/keys";
import type { Task } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { Notice } from "../../components/Notice";
import { Stack } from "../../components/Stack";
import { toast } from "../../components/toast";
import { plural } from "../../lib/format";
import { applicable, applyToAll, type BulkAction } from "./bulk";

const LISTED = 8;

const TEXTS: Record<BulkAction, { verb: string; effect: string; skipped: string; done: string }> = {
  stop: {
    verb: "Stop",
    effect: "The agents stop. Changes and logs are kept, and the Tasks can be run again.",
    skipped: "already finished or stopping",
    done: "stopping",
  },
  rerun: {
    verb: "Run again",
    effect: "Each Task starts its next run. Earlier runs and their logs are kept.",
    skipped: "not finished",
    done: "running again",
  },
  delete: {
    verb: "Delete",
    effect:
      "This cannot be undone. Each Task is removed with its log, its Pod and its ConfigMap; a running one is stopped.",
    skipped: "",
    done: "being deleted",
  },
};

export interface BulkDialogProps {
  action: BulkAction;
  tasks: Task[];
  /** Called with the Tasks for which the action succeeded. */
  onDone: (tasks: Task[]) => void;
  onClose: () => void;
}

/** Asks for confirmation of an action on several Tasks and reports each failure. */
export function BulkDialog({ action, tasks, onDone, onClose }: BulkDialogProps) {
  const cache = useQueryClient();
  const texts = TEXTS[action];
  const run = useMutation({
    mutationFn: (wanted: Task[]) => applyToAll(action, wanted),
    onSuccess: ({ done, failed }) => {
      void cache.invalidateQueries({ queryKey: keys.lists("Task") });
      onDone(done);
      if (done.length > 0)
        toast.done(`${plural(done.length, "Task")} ${done.length === 1 ? "is" : "are"} ${texts.done}.`);
      if (failed.length === 0) onClose();
    },
  });
  const failed = run.data?.failed ?? [];
  const wanted = failed.length > 0 ? failed.map(({ task }) => task) : applicable(action, tasks);
  const skipped = tasks.length - applicable(action, tasks).length;
  const name = `${texts.verb} ${plural(wanted.length, "Task")}`;
  return (
    <Dialog
      title={failed.length > 0 ? `${plural(failed.length, "Task")} failed` : `${name}?`}
      open
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>{failed.length > 0 ? "Close" : "Cancel"}</Button>
          <Button
            variant={action === "delete" ? "danger" : "primary"}
            busy={run.isPending}
            onClick={() => run.mutate(wanted)}
          >
            {failed.length > 0 ? "Try again" : name}
          </Button>
        </>
      }
    >
      <Stack gap={3}>
        {failed.length > 0 ? (
          <>
            <Notice tone="bad">
              The action failed for {plural(failed.length, "Task")} and succeeded for {run.data?.done.length ?? 0}.
            </Notice>
            <ul className="bullets">
              {failed.map(({ task, message }) => (
                <li key={`${task.namespace}/${task.name}`}>
                  <strong>{task.name}</strong>: {message}
                </li>
              ))}
            </ul>
          </>
        ) : (
          <>
            <p>{texts.effect}</p>
            <ul className="bullets">
              {wanted.slice(0, LISTED).map((task) => (
                <li key={`${task.namespace}/${task.name}`}>
                  {task.name} <span className="quiet">in {task.namespace}</span>
                </li>
              ))}
              {wanted.length > LISTED && <li>and {wanted.length - LISTED} more</li>}
            </ul>
            {skipped > 0 && (
              <p className="quiet">
                Left out: {plural(skipped, "selected Task")} {skipped === 1 ? "is" : "are"} {texts.skipped}.
              </p>
            )}
          </>
        )}
      </Stack>
    </Dialog>
  );
}
