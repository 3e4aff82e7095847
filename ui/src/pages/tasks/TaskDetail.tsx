import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import { TASK } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { Explain, Task } from "../../api/types";
import { Elapsed } from "../../components/Elapsed";
import { Notice } from "../../components/Notice";
import { Stack } from "../../components/Stack";
import { sentence } from "../../lib/format";
import { isStopped, taskStatus } from "../../lib/phase";
import { DetailPage } from "../DetailPage";
import { useNames } from "../useNames";
import { removedWith } from "./DeleteTaskDialog";
import { PermissionPanel } from "./PermissionPanel";
import { PhaseTimeline } from "./PhaseTimeline";
import { RunsOn } from "./RunsOn";
import { TaskActions } from "./TaskActions";
import { TaskArtifacts } from "./TaskArtifacts";
import { TaskChanges } from "./TaskChanges";
import { TaskExplain } from "./TaskExplain";
import { TaskOverview } from "./TaskOverview";
import { TaskWork } from "./TaskWork";
import { useStartTime } from "./useStartTime";

export default function TaskDetail() {
  const { namespace, name } = useNames();
  const query = useObject<Task>(TASK, namespace, name);
  const explain = useQuery({
    queryKey: keys.explain("Task", namespace, name),
    queryFn: ({ signal }) => call<Explain>(`${objectPath("tasks", namespace, name)}/explain`, { signal }),
    enabled: query.data !== undefined,
  });
  const startTime = useStartTime(query.data);
  return (
    <DetailPage kind={TASK} query={query}>
      {(task) => ({
        title: task.title,
        status: taskStatus(task),
        sub: <Subtitle task={started(task, startTime)} />,
        actions: <TaskActions task={task} />,
        above: <Notices task={started(task, startTime)} />,
        removes: removedWith(task),
        tabs: [
          { id: "work", label: "Work", content: () => <TaskWork task={task} /> },
          { id: "changes", label: "Changes", content: () => <TaskChanges task={task} /> },
          { id: "artifacts", label: "Artifacts", content: () => <TaskArtifacts task={task} /> },
          { id: "overview", label: "Overview", content: () => <TaskOverview task={task} /> },
          { id: "explain", label: "Explain", content: () => <TaskExplain explain={explain} namespace={namespace} /> },
        ],
      })}
    </DetailPage>
  );
}

function started(task: Task, startTime: string | undefined): Task {
  return startTime === undefined ? task : { ...task, startTime };
}

/** The Agent or template of the Task, its author and the duration. */
function Subtitle({ task }: { task: Task }) {
  const { startTime, completionTime, createdBy } = task;
  return (
    <Stack row gap={2}>
      <RunsOn task={task} />
      {createdBy && <span>· by {createdBy}</span>}
      {startTime && (
        <span>
          · <Elapsed from={startTime} to={completionTime} />
        </span>
      )}
    </Stack>
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
      {task.message && isStopped(task) && <Notice tone="idle">{sentence(task.message)}</Notice>}
      {task.message && task.phase === "Failed" && <Notice tone="bad">{sentence(task.message)}</Notice>}
      <PermissionPanel task={task} />
    </>
  );
}
