import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import { TASK } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { Explain, Task } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { Notice } from "../../components/Notice";
import { ObjectLink } from "../../components/ObjectLink";
import { sentence } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import { DetailPage } from "../DetailPage";
import { useNames } from "../useNames";
import { removedWith } from "./DeleteTaskDialog";
import { PermissionPanel } from "./PermissionPanel";
import { PhaseTimeline } from "./PhaseTimeline";
import { TaskActions } from "./TaskActions";
import { TaskChanges } from "./TaskChanges";
import { TaskExplain } from "./TaskExplain";
import { TaskOverview } from "./TaskOverview";
import { TaskWork } from "./TaskWork";

export default function TaskDetail() {
  const { namespace, name } = useNames();
  const query = useObject<Task>(TASK, namespace, name);
  const explain = useQuery({
    queryKey: keys.explain("Task", namespace, name),
    queryFn: ({ signal }) => call<Explain>(`${objectPath("tasks", namespace, name)}/explain`, { signal }),
    enabled: query.data !== undefined,
  });
  return (
    <DetailPage kind={TASK} query={query}>
      {(task) => ({
        status: taskStatus(task),
        sub: <RunsOn task={task} />,
        actions: <TaskActions task={task} />,
        above: <Notices task={task} />,
        removes: removedWith(task),
        tabs: [
          { id: "work", label: "Work", content: () => <TaskWork task={task} /> },
          { id: "changes", label: "Changes", content: () => <TaskChanges task={task} /> },
          { id: "overview", label: "Overview", content: () => <TaskOverview task={task} /> },
          { id: "explain", label: "Explain", content: () => <TaskExplain explain={explain} namespace={namespace} /> },
        ],
      })}
    </DetailPage>
  );
}

/** The Agent or template of the Task, and the duration. */
function RunsOn({ task: { namespace, agentRef, templateRef, startTime, completionTime } }: { task: Task }) {
  return (
    <>
      {agentRef && <ObjectLink kind="Agent" namespace={namespace} name={agentRef.name} withKind />}
      {templateRef && <ObjectLink kind="AgentTemplate" namespace={namespace} name={templateRef.name} withKind />}
      {startTime && (
        <>
          {" "}
          · <Elapsed from={startTime} to={completionTime} />
        </>
      )}
    </>
  );
}

/** Timeline, permission requests and notices. */
function Notices({ task }: { task: Task }) {
  const waits = task.phase === "Queued" || task.phase === "Pending" || task.phase === undefined;
  return (
    <>
      <PhaseTimeline task={task} />
      {task.deletionTimestamp && <Notice tone="warn">The Task is being deleted.</Notice>}
      {task.message && waits && <Notice tone="warn">{sentence(task.message)}</Notice>}
      {task.message && task.phase === "Failed" && <Notice tone="bad">{sentence(task.message)}</Notice>}
      <PermissionPanel task={task} />
    </>
  );
}
