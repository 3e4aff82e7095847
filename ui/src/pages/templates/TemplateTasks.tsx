import { useQuery } from "@tanstack/react-query";
import { ListChecks } from "lucide-react";
import { TASK } from "../../api/kinds";
import { fetchPage } from "../../api/objects";
import type { AgentTemplate, Task } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { EmptyState } from "../../components/EmptyState";
import { LinkButton } from "../../components/LinkButton";
import { Loaded } from "../../components/Loaded";
import { SimpleTable } from "../../components/SimpleTable";
import { count } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import detail from "../Detail.module.css";
import { TaskLink } from "../tasks/TaskLink";

const SHOWN = 5;

/** The newest Tasks that use a template directly. */
export function TemplateTasks({ template, where }: { template: AgentTemplate; where: string }) {
  const { namespace, name } = template;
  const tasks = useQuery({
    queryKey: ["Task", "list", namespace, { template: name }, 0],
    queryFn: ({ signal }) => fetchPage<Task>(TASK, namespace, { template: name }, 0, SHOWN, signal),
  });
  return (
    <Card
      title="Tasks using this template"
      flush
      className={detail.whole}
      tools={
        tasks.data &&
        tasks.data.total > 0 && (
          <LinkButton small to={`/tasks?${where}`}>
            All {count(tasks.data.total)}
          </LinkButton>
        )
      }
    >
      <Loaded query={tasks} label="the Tasks" lines={3}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState
              small
              title="None"
              icon={<ListChecks size={20} />}
              action={<LinkButton to={`/tasks/create?${where}`}>Create a Task</LinkButton>}
            />
          ) : (
            <SimpleTable
              label="Tasks using this template"
              head={["Task", "Status", "Age"]}
              rows={items.map((task) => ({
                key: task.name,
                cells: [
                  <TaskLink key="name" task={task} />,
                  <Badge key="status" status={taskStatus(task)} />,
                  <Ago key="age" at={task.createdAt} />,
                ],
              }))}
            />
          )
        }
      </Loaded>
    </Card>
  );
}
