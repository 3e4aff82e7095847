import { Bot } from "lucide-react";
import type { AgentLoad } from "../../api/types";
import { Badge } from "../../components/Badge";
import { EmptyState } from "../../components/EmptyState";
import { LinkButton } from "../../components/LinkButton";
import { Meter } from "../../components/Meter";
import { ObjectLink } from "../../components/ObjectLink";
import { agentStatus } from "../../lib/phase";
import styles from "./AgentLoadList.module.css";

/** Slots and queue length of each Agent. */
export function AgentLoadList({ agents }: { agents: AgentLoad[] }) {
  if (agents.length === 0) {
    return (
      <EmptyState
        small
        icon={<Bot size={20} />}
        title="No Agents yet"
        action={<LinkButton to="/agents/create">Create an Agent</LinkButton>}
      >
        An Agent is a long-running coding agent that executes Tasks.
      </EmptyState>
    );
  }
  return (
    <ul className={styles.list}>
      {agents.map((agent) => (
        <li key={`${agent.namespace}/${agent.name}`} className={styles.item}>
          <span className="truncate">
            <ObjectLink kind="Agent" namespace={agent.namespace} name={agent.name} />
          </span>
          <span className={`${styles.namespace} quiet truncate`}>{agent.namespace}</span>
          <span>
            <Badge status={agentStatus(agent)} />
          </span>
          <Meter label={`Slots of ${agent.name}`} used={agent.slots?.used ?? 0} total={agent.slots?.total} />
          <span className={styles.queue}>{agent.queueLength ? `${agent.queueLength} waiting` : "queue empty"}</span>
        </li>
      ))}
    </ul>
  );
}
