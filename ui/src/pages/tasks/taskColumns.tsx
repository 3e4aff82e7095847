import type { Task } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Elapsed } from "../../components/Elapsed";
import { humanize, money } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import type { Column } from "../../list/columns";
import { ageColumn } from "../../list/nameColumns";
import { RunsOn } from "./RunsOn";
import { TaskLink } from "./TaskLink";

/** The reason of the status, unless the Task runs or succeeded. */
function reasonOf(task: Task): string {
  if (!task.reason || task.reason === "Succeeded" || task.phase === "Running") return "";
  const place = task.phase === "Queued" && task.queuePosition ? `#${task.queuePosition} · ` : "";
  return `${place}${humanize(task.reason)}`;
}

export const taskColumns: Column<Task>[] = [
  {
    title: "Name",
    sort: "name",
    width: "minmax(240px, 3fr)",
    phone: "title",
    cell: (task) => <TaskLink task={task} />,
  },
  {
    title: "Status",
    sort: "phase",
    width: "142px",
    phone: "side",
    cell: (task) => <Badge status={taskStatus(task)} title={task.message} />,
  },
  {
    title: "Reason",
    width: "minmax(136px, 1.5fr)",
    phone: "line",
    cell: (task) => <span title={task.message}>{reasonOf(task)}</span>,
  },
  { title: "Runs on", width: "minmax(130px, 1.2fr)", phone: "none", cell: (task) => <RunsOn task={task} /> },
  {
    title: "Duration",
    sort: "duration",
    width: "76px",
    end: true,
    phone: "line",
    cell: (task) => <Elapsed from={task.startTime} to={task.completionTime} />,
  },
  {
    title: "Cost",
    width: "60px",
    end: true,
    phone: "none",
    cell: (task) => (task.usage?.cost ? money(task.usage.cost) : <span className="quiet">–</span>),
  },
  ageColumn<Task>(),
];
