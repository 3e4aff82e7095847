import { Link } from "react-router";
import { pageOf } from "../../api/kinds";
import type { Task } from "../../api/types";
import styles from "./RunsOn.module.css";

/** The Agent or template that a Task runs on, with its kind. */
export function RunsOn({ task: { namespace, agentRef, templateRef } }: { task: Task }) {
  const [kind, label] = agentRef ? ["Agent", "Agent"] : ["AgentTemplate", "Template"];
  const name = (agentRef ?? templateRef)?.name;
  if (!name) return null;
  return (
    <Link className={styles.target} to={pageOf(kind, namespace, name) ?? "/"} title={`${label} ${name}`}>
      <span className="quiet">{label}</span> {name}
    </Link>
  );
}
