import type { Agent, AgentExplain } from "../../api/types";
import { Badge } from "../../components/Badge";
import { Elapsed } from "../../components/Elapsed";
import { ObjectLink } from "../../components/ObjectLink";
import { Stack } from "../../components/Stack";
import { taskStatus } from "../../lib/phase";
import styles from "../dashboard/ReasonBars.module.css";

/** What runs on the Agent and who comes next. */
export function AgentQueue({ agent, explain }: { agent: Agent; explain: AgentExplain | undefined }) {
  const running = explain?.running ?? [];
  const waiting = explain?.queue?.ahead ?? [];
  if (running.length === 0 && waiting.length === 0) return <p className="quiet">Nothing runs and nothing waits.</p>;
  const row = (task: { name: string; phase?: Parameters<typeof taskStatus>[0]["phase"]; startTime?: string }) => (
    <li key={task.name} className={styles.head}>
      <ObjectLink kind="Task" namespace={agent.namespace} name={task.name} />
      <Stack row gap={2}>
        {task.startTime && (
          <span className="quiet">
            <Elapsed from={task.startTime} />
          </span>
        )}
        <Badge status={taskStatus(task)} />
      </Stack>
    </li>
  );
  return (
    <ul className={styles.list}>
      {running.map(row)}
      {waiting.map(row)}
    </ul>
  );
}
