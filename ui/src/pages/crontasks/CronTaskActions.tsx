import { Pause, Play, Zap } from "lucide-react";
import { CRON_TASK } from "../../api/kinds";
import { useAction } from "../../api/objects";
import { useRights } from "../../api/rights";
import type { CronTask } from "../../api/types";
import { Button } from "../../components/Button";
import { toast } from "../../components/toast";

export function CronTaskActions({ cron }: { cron: CronTask }) {
  const may = useRights(cron.namespace);
  const trigger = useAction<CronTask>(CRON_TASK, "trigger");
  const turn = useAction<CronTask>(CRON_TASK, cron.suspend ? "resume" : "suspend");
  const names = { namespace: cron.namespace, name: cron.name };
  const allowed = may("update crontasks");
  return (
    <>
      <Button
        icon={<Zap size={14} />}
        busy={trigger.isPending}
        disabled={!allowed}
        onClick={() => trigger.mutate(names, { onSuccess: () => toast.done("Run triggered."), onError: toast.failed })}
      >
        Run now
      </Button>
      <Button
        icon={cron.suspend ? <Play size={14} /> : <Pause size={14} />}
        busy={turn.isPending}
        disabled={!allowed}
        onClick={() =>
          turn.mutate(names, {
            onSuccess: () => toast.done(cron.suspend ? "Schedule resumed." : "Schedule suspended."),
            onError: toast.failed,
          })
        }
      >
        {cron.suspend ? "Resume" : "Suspend"}
      </Button>
    </>
  );
}
