import { MoreHorizontal, Pause, Play, Trash2, Zap } from "lucide-react";
import { useState } from "react";
import { CRON_TASK } from "../../api/kinds";
import { useAction } from "../../api/objects";
import { useRights } from "../../api/rights";
import type { CronTask } from "../../api/types";
import { Button } from "../../components/Button";
import { Menu } from "../../components/Menu";
import { toast } from "../../components/toast";
import { plural } from "../../lib/format";
import { DeleteDialog } from "../DeleteDialog";

export function CronTaskActions({ cron, tasks }: { cron: CronTask; tasks: number }) {
  const may = useRights(cron.namespace);
  const trigger = useAction<CronTask>(CRON_TASK, "trigger");
  const turn = useAction<CronTask>(CRON_TASK, cron.suspend ? "resume" : "suspend");
  const [deleting, setDeleting] = useState(false);
  const names = { namespace: cron.namespace, name: cron.name };
  const allowed = may("update crontasks");
  return (
    <>
      <Button
        icon={<Zap size={14} />}
        busy={trigger.isPending}
        disabled={!allowed}
        onClick={() =>
          trigger.mutate(names, { onSuccess: () => toast.done("A run was asked for."), onError: toast.failed })
        }
      >
        Run now
      </Button>
      <Button
        icon={cron.suspend ? <Play size={14} /> : <Pause size={14} />}
        busy={turn.isPending}
        disabled={!allowed}
        onClick={() =>
          turn.mutate(names, {
            onSuccess: () => toast.done(cron.suspend ? "The schedule goes on." : "The schedule is suspended."),
            onError: toast.failed,
          })
        }
      >
        {cron.suspend ? "Resume" : "Suspend"}
      </Button>
      <Menu
        label="More actions"
        icon={<MoreHorizontal size={16} />}
        items={[
          {
            label: "Delete",
            icon: <Trash2 size={15} />,
            danger: true,
            disabled: !may("delete crontasks"),
            onSelect: () => setDeleting(true),
          },
        ]}
      />
      <DeleteDialog
        kind={CRON_TASK}
        {...names}
        open={deleting}
        leaveTo="/crontasks"
        consequences={[
          `the CronTask ${cron.name}: no more runs`,
          ...(tasks > 0 ? [`${plural(tasks, "Task")} that it created, with their logs`] : []),
          ...(cron.active ? [`${plural(cron.active, "run")} that ${cron.active === 1 ? "is" : "are"} going on`] : []),
        ]}
        onClose={() => setDeleting(false)}
      />
    </>
  );
}
