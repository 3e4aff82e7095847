import { SquareTerminal } from "lucide-react";
import { BASE, objectPath } from "../../api/client";
import type { Agent } from "../../api/types";
import { EmptyState } from "../../components/EmptyState";
import { TerminalView } from "../../terminal/TerminalView";
import styles from "./AgentTerminal.module.css";

export function AgentTerminal({ agent }: { agent: Agent }) {
  if (!agent.serverStatus?.ready) {
    return (
      <EmptyState small title="Agent not running" icon={<SquareTerminal size={20} />}>
        {agent.phase === "Suspended"
          ? "Resume the Agent to open the terminal."
          : "The terminal opens when the server is ready."}
      </EmptyState>
    );
  }
  return (
    <div className={styles.terminal}>
      <TerminalView
        path={`${BASE}${objectPath("agents", agent.namespace, agent.name)}/terminal`}
        label={`Terminal of ${agent.name}`}
      />
    </div>
  );
}
