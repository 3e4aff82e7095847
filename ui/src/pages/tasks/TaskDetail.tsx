import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import { TASK } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { Explain, Task } from "../../api/types";
import { Page } from "../../app/Page";
import { Badge } from "../../components/Badge";
import { Elapsed } from "../../components/Elapsed";
import { Notice } from "../../components/Notice";
import { ObjectLink } from "../../components/ObjectLink";
import { PageHeader } from "../../components/PageHeader";
import { Tabs } from "../../components/Tabs";
import { YamlPanel } from "../../editor/YamlPanel";
import { taskStatus } from "../../lib/phase";
import { DetailState } from "../DetailState";
import { useNames } from "../useNames";
import { useTab } from "../useTab";
import { PermissionPanel } from "./PermissionPanel";
import { PhaseTimeline } from "./PhaseTimeline";
import { TaskActions } from "./TaskActions";
import { TaskExplain } from "./TaskExplain";
import { TaskOverview } from "./TaskOverview";
import { TaskWork } from "./TaskWork";

export default function TaskDetail() {
  const { namespace, name } = useNames();
  const [tab, setTab] = useTab("work");
  const query = useObject<Task>(TASK, namespace, name);
  const explain = useQuery({
    queryKey: keys.explain("Task", namespace, name),
    queryFn: ({ signal }) => call<Explain>(`${objectPath("tasks", namespace, name)}/explain`, { signal }),
    enabled: query.data !== undefined,
  });
  const task = query.data;
  if (!task || query.error) return <DetailState kind={TASK} name={name} query={query} />;

  const status = taskStatus(task);
  const waits = task.phase === "Queued" || task.phase === "Pending" || task.phase === undefined;
  return (
    <Page>
      <PageHeader
        title={task.name}
        badge={<Badge status={status} />}
        crumbs={[{ label: "Tasks", to: "/tasks" }, { label: task.namespace }]}
        sub={
          <>
            {task.agentRef && <ObjectLink kind="Agent" namespace={namespace} name={task.agentRef.name} withKind />}
            {task.templateRef && (
              <ObjectLink kind="AgentTemplate" namespace={namespace} name={task.templateRef.name} withKind />
            )}
            {task.startTime && (
              <>
                {" "}
                · <Elapsed from={task.startTime} to={task.completionTime} />
              </>
            )}
          </>
        }
        actions={<TaskActions task={task} />}
      />
      <PhaseTimeline task={task} />
      {task.deletionTimestamp && <Notice tone="warn">It is being deleted.</Notice>}
      {task.message && (waits || task.phase === "Failed") && (
        <Notice tone={waits ? "warn" : "idle"}>{task.message}</Notice>
      )}
      <PermissionPanel task={task} />
      <Tabs
        label="Parts of the Task"
        selected={tab}
        onSelect={setTab}
        tabs={[
          { id: "work", label: "Work", content: () => <TaskWork task={task} /> },
          { id: "overview", label: "Overview", content: () => <TaskOverview task={task} /> },
          { id: "explain", label: "Explain", content: () => <TaskExplain explain={explain} namespace={namespace} /> },
          { id: "yaml", label: "YAML", content: () => <YamlPanel kind={TASK} namespace={namespace} name={name} /> },
        ]}
      />
    </Page>
  );
}
