import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import { CRON_TASK, pageFrom, TASK } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { CronTask, Task } from "../../api/types";
import { Page } from "../../app/Page";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { Facts } from "../../components/Facts";
import { ObjectLink } from "../../components/ObjectLink";
import { PageHeader } from "../../components/PageHeader";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { Tabs } from "../../components/Tabs";
import { YamlPanel } from "../../editor/YamlPanel";
import { count } from "../../lib/format";
import { DetailState } from "../DetailState";
import { LabelList } from "../LabelList";
import detail from "../tasks/TaskDetail.module.css";
import { useNames } from "../useNames";
import { useTab } from "../useTab";
import { CronHistory } from "./CronHistory";
import { CronTaskActions } from "./CronTaskActions";
import { cronStatus } from "./cronStatus";
import { UpcomingCard } from "./UpcomingCard";

export default function CronTaskDetail() {
  const { namespace, name } = useNames();
  const [tab, setTab] = useTab("overview");
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
  const cron = query.data;
  if (!cron || query.error) return <DetailState kind={CRON_TASK} name={name} query={query} />;
  const template = cron.taskTemplate ?? {};

  return (
    <Page>
      <PageHeader
        title={cron.name}
        badge={<Badge status={cronStatus(cron)} />}
        crumbs={[{ label: "CronTasks", to: "/crontasks" }, { label: cron.namespace }]}
        sub={
          <>
            <code>{cron.schedule}</code> {cron.timeZone ?? "UTC"}
          </>
        }
        actions={<CronTaskActions cron={cron} tasks={history.data?.total ?? 0} />}
      />
      <Tabs
        label="Parts of the CronTask"
        selected={tab}
        onSelect={setTab}
        tabs={[
          {
            id: "overview",
            label: "Overview",
            content: () => (
              <Stack gap={4}>
                <UpcomingCard cron={cron} />
                <Card title="History" flush tools={history.data && `${count(history.data.total)} Tasks`}>
                  {history.data ? <CronHistory tasks={history.data.items} /> : <SkeletonBlock lines={5} />}
                </Card>
                <div className={detail.cards}>
                  <Card title="What each run does">
                    <p className={detail.description}>{template.description || "No description."}</p>
                  </Card>
                  <Card title="Facts">
                    <Facts
                      facts={[
                        [
                          "Agent",
                          template.agentRef && (
                            <ObjectLink kind="Agent" namespace={namespace} name={template.agentRef.name} />
                          ),
                        ],
                        [
                          "Template",
                          template.templateRef && (
                            <ObjectLink kind="AgentTemplate" namespace={namespace} name={template.templateRef.name} />
                          ),
                        ],
                        ["Timeout", template.timeout],
                        ["If one still runs", cron.concurrencyPolicy ?? "Forbid"],
                        ["Keeps", cron.maxRetainedTasks !== undefined && `${cron.maxRetainedTasks} Tasks`],
                        ["Last run", <Ago key="last" at={cron.lastScheduleTime} />],
                        ["Last success", <Ago key="success" at={cron.lastSuccessfulTime} />],
                        ["Next run", <Ago key="next" at={cron.nextScheduleTime} />],
                        ["Runs so far", count(cron.totalExecutions ?? 0)],
                        ["Labels", <LabelList key="labels" labels={cron.labels} />],
                      ]}
                    />
                  </Card>
                  <Card title="Conditions">
                    <ConditionList conditions={cron.conditions} />
                  </Card>
                </div>
              </Stack>
            ),
          },
          {
            id: "yaml",
            label: "YAML",
            content: () => <YamlPanel kind={CRON_TASK} namespace={namespace} name={name} />,
          },
        ]}
      />
    </Page>
  );
}
