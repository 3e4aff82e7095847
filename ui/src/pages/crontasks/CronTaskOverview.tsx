import type { UseQueryResult } from "@tanstack/react-query";
import type { CronTask, Page, Task } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { Facts } from "../../components/Facts";
import { Loaded } from "../../components/Loaded";
import { ObjectLink } from "../../components/ObjectLink";
import { Stack } from "../../components/Stack";
import { count, plural } from "../../lib/format";
import { formatDuration } from "../../lib/time";
import detail from "../Detail.module.css";
import { LabelList } from "../LabelList";
import { CronHistory } from "./CronHistory";
import { nextRun } from "./cronStatus";
import { UpcomingCard } from "./UpcomingCard";

/** Next runs, history and Task template of a CronTask. */
export function CronTaskOverview({ cron, history }: { cron: CronTask; history: UseQueryResult<Page<Task>> }) {
  const { namespace } = cron;
  const template = cron.taskTemplate ?? {};
  return (
    <Stack gap={4}>
      <UpcomingCard cron={cron} />
      <Card title="History" flush tools={history.data && plural(history.data.total, "Task")}>
        <Loaded query={history} label="the history" lines={5}>
          {({ items }) => <CronHistory tasks={items} />}
        </Loaded>
      </Card>
      <div className={detail.cards}>
        <Card title="Task description">
          <p className={detail.description}>{template.description || "No description."}</p>
        </Card>
        <Card title="Details">
          <Facts
            facts={[
              [
                "Agent",
                template.agentRef && <ObjectLink kind="Agent" namespace={namespace} name={template.agentRef.name} />,
              ],
              [
                "Template",
                template.templateRef && (
                  <ObjectLink kind="AgentTemplate" namespace={namespace} name={template.templateRef.name} />
                ),
              ],
              ["Timeout", template.timeout && formatDuration(template.timeout)],
              ["Concurrency policy", cron.concurrencyPolicy ?? "Forbid"],
              ["Retention limit", cron.maxRetainedTasks !== undefined && plural(cron.maxRetainedTasks, "Task")],
              ["Last run", <Ago key="last" at={cron.lastScheduleTime} />],
              ["Last success", <Ago key="success" at={cron.lastSuccessfulTime} />],
              ["Next run", <Ago key="next" at={nextRun(cron)} />],
              ["Total runs", count(cron.totalExecutions ?? 0)],
              ["Labels", <LabelList key="labels" labels={cron.labels} />],
            ]}
          />
        </Card>
        <Card title="Conditions">
          <ConditionList conditions={cron.conditions} />
        </Card>
      </div>
    </Stack>
  );
}
