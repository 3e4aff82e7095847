import { History } from "lucide-react";
import type { Task } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Elapsed } from "../../components/Elapsed";
import { EmptyState } from "../../components/EmptyState";
import { ObjectLink } from "../../components/ObjectLink";
import { SimpleTable } from "../../components/SimpleTable";
import { humanize, money } from "../../lib/format";
import { taskStatus } from "../../lib/phase";

/** Past runs, newest first. */
export function CronHistory({ tasks }: { tasks: Task[] }) {
  if (tasks.length === 0) return <EmptyState small icon={<History size={20} />} title="No runs yet" />;
  return (
    <SimpleTable
      label="Run history"
      head={["Task", "Status", "Reason", "Duration", "Cost", "Started"]}
      wide={["Reason", "Duration", "Cost"]}
      rows={tasks.map((task) => ({
        key: task.name,
        cells: [
          <ObjectLink key="name" kind="Task" namespace={task.namespace} name={task.name} />,
          <Badge key="status" status={taskStatus(task)} />,
          task.reason && task.reason !== "Succeeded" ? humanize(task.reason) : "",
          <Elapsed key="duration" from={task.startTime} to={task.completionTime} />,
          task.usage?.cost ? money(task.usage.cost) : "–",
          <Ago key="age" at={task.createdAt} />,
        ],
      }))}
    />
  );
}
