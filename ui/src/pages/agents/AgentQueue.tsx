import type { Agent, AgentExplain } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Elapsed } from "../../components/Elapsed";
import { ObjectLink } from "../../components/ObjectLink";
import { Rows } from "../../components/Rows";
import { Stack } from "../../components/Stack";
import { taskStatus } from "../../lib/phase";

/** The running and waiting Tasks of an Agent. */
export function AgentQueue({ agent, explain }: { agent: Agent; explain: AgentExplain | undefined }) {
  const tasks = [...(explain?.running ?? []), ...(explain?.queue.ahead ?? [])];
  if (tasks.length === 0) return <p className="quiet">No running Tasks, queue empty.</p>;
  return (
    <Rows
      rows={tasks.map((task) => ({
        key: task.name,
        name: <ObjectLink kind="Task" namespace={agent.namespace} name={task.name} />,
        fact: (
          <Stack row gap={2}>
            {task.startTime && (
              <span className="quiet">
                <Elapsed from={task.startTime} />
              </span>
            )}
            <Badge status={taskStatus(task)} />
          </Stack>
        ),
      }))}
    />
  );
}
