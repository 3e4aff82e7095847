import { TASK } from "../../api/kinds";
import type { Task } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Elapsed } from "../../components/Elapsed";
import { ObjectLink } from "../../components/ObjectLink";
import { humanize, money } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import type { Column } from "../../list/columns";
import { ageColumn, nameColumns } from "../../list/nameColumns";

/** The reason of the status, unless the Task runs or succeeded. */
function reasonOf(task: Task): string {
  if (!task.reason || task.reason === "Succeeded" || task.phase === "Running") return "";
  const place = task.phase === "Queued" && task.queuePosition ? `#${task.queuePosition} · ` : "";
  return `${place}${humanize(task.reason)}`;
}

export const taskColumns: Column<Task>[] = [
  ...nameColumns<Task>(TASK),
  {
    title: "Status",
    sort: "phase",
    width: "146px",
    phone: "side",
    cell: (task) => <Badge status={taskStatus(task)} title={task.message} />,
  },
  {
    title: "Reason",
    width: "minmax(150px, 1.8fr)",
    phone: "line",
    cell: (task) => <span title={task.message}>{reasonOf(task)}</span>,
  },
  {
    title: "Agent",
    width: "minmax(100px, 1fr)",
    phone: "none",
    cell: (task) => {
      const agent = task.agentRef;
      const template = task.templateRef;
      if (agent) return <ObjectLink kind="Agent" namespace={task.namespace} name={agent.name} />;
      if (template) return <ObjectLink kind="AgentTemplate" namespace={task.namespace} name={template.name} />;
      return null;
    },
  },
  {
    title: "Duration",
    sort: "duration",
    width: "84px",
    end: true,
    phone: "line",
    cell: (task) => <Elapsed from={task.startTime} to={task.completionTime} />,
  },
  {
    title: "Cost",
    width: "72px",
    end: true,
    phone: "none",
    cell: (task) => (task.usage?.cost ? money(task.usage.cost) : <span className="quiet">–</span>),
  },
  ageColumn<Task>(),
];
