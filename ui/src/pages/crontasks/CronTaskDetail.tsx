import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import { CRON_TASK, pageFrom, TASK } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { CronTask, Task } from "../../api/types";
import { plural } from "../../lib/format";
import { DetailPage } from "../DetailPage";
import { useNames } from "../useNames";
import { BlockedNotice } from "./BlockedNotice";
import { CronTaskActions } from "./CronTaskActions";
import { CronTaskOverview } from "./CronTaskOverview";
import { cronStatus } from "./cronStatus";

function removedWith(cron: CronTask, tasks: number): string[] {
  return [
    `the CronTask ${cron.name} and its schedule`,
    ...(tasks > 0 ? [`${plural(tasks, "Task")} created by it, with logs`] : []),
    ...(cron.active ? [`${plural(cron.active, "run")} that ${cron.active === 1 ? "is" : "are"} going on`] : []),
  ];
}

export default function CronTaskDetail() {
  const { namespace, name } = useNames();
  const query = useObject<CronTask>(CRON_TASK, namespace, name);
  const history = useQuery({
    queryKey: keys.history(namespace, name),
    queryFn: ({ signal }) =>
      call<Record<string, unknown>>(`${objectPath("crontasks", namespace, name)}/history`, {
        query: { limit: 50 },
        signal,
      }).then((body) => pageFrom<Task>(TASK, body)),
    enabled: query.data !== undefined,
  });
  return (
    <DetailPage kind={CRON_TASK} query={query}>
      {(cron) => ({
        status: cronStatus(cron),
        sub: (
          <>
            <code>{cron.schedule}</code> {cron.timeZone ?? "UTC"}
          </>
        ),
        actions: <CronTaskActions cron={cron} />,
        above: <BlockedNotice cron={cron} />,
        removes: removedWith(cron, history.data?.total ?? 0),
        tabs: [
          {
            id: "overview",
            label: "Overview",
            content: () => <CronTaskOverview cron={cron} history={history} />,
          },
        ],
      })}
    </DetailPage>
  );
}
