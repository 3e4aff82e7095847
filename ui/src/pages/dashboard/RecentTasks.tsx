import { ListChecks } from "lucide-react";
import type { Task } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Elapsed } from "../../components/Elapsed";
import { EmptyState } from "../../components/EmptyState";
import { LinkButton } from "../../components/LinkButton";
import { SimpleTable } from "../../components/SimpleTable";
import { money } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import { RunsOn } from "../tasks/RunsOn";
import { TaskLink } from "../tasks/TaskLink";

export function RecentTasks({ tasks }: { tasks: Task[] }) {
  if (tasks.length === 0) {
    return (
      <EmptyState
        small
        icon={<ListChecks size={20} />}
        title="No Tasks yet"
        action={
          <LinkButton variant="primary" to="/tasks/create">
            Create the first Task
          </LinkButton>
        }
      >
        A Task is a unit of work for an agent, described in plain language.
      </EmptyState>
    );
  }
  return (
    <SimpleTable
      label="Newest Tasks"
      head={["Task", "Status", "Runs on", "Duration", "Cost", "Age"]}
      wide={["Runs on", "Duration", "Cost"]}
      rows={tasks.map((task) => ({
        key: `${task.namespace}/${task.name}`,
        cells: [
          <TaskLink key="name" task={task} />,
          <Badge key="status" status={taskStatus(task)} />,
          <RunsOn key="target" task={task} />,
          <Elapsed key="duration" from={task.startTime} to={task.completionTime} />,
          task.usage?.cost ? money(task.usage.cost) : "–",
          <Ago key="age" at={task.createdAt} />,
        ],
      }))}
    />
  );
}
