import { CircleCheck, CircleX, LoaderCircle } from "lucide-react";
import type { SessionPart } from "../api/types";
import { DiffView } from "../components/DiffView";
import { changesOfCall } from "../lib/fileChanges";
import styles from "./Transcript.module.css";

const STATUSES = {
  completed: { icon: CircleCheck, className: styles.good, label: "done" },
  error: { icon: CircleX, className: styles.bad, label: "failed" },
  running: { icon: LoaderCircle, className: styles.busy, label: "running" },
  pending: { icon: LoaderCircle, className: styles.busy, label: "waiting" },
};

/** A tool call with its result. File changes are expanded, other output is collapsed. */
export function ToolCall({ part }: { part: SessionPart }) {
  const state = part.state ?? {};
  const status = STATUSES[state.status ?? "pending"];
  const input = state.input ?? {};
  const title = state.title ?? firstText(input);
  const changes = changesOfCall(part);
  const output = state.error ?? state.output;
  const Icon = status.icon;
  return (
    <details className={styles.tool} open={changes.length > 0}>
      <summary>
        <Icon size={14} className={status.className} aria-hidden="true" />
        <strong>{part.tool}</strong>
        <span className={`${styles.toolTitle} truncate mono`}>{title}</span>
        <span className="visually-hidden">{status.label}</span>
      </summary>
      <div className={styles.toolBody}>
        {changes.map((change) => (
          <DiffView key={change.path} lines={change.lines} label={`Change of ${change.path}`} />
        ))}
        {typeof input.command === "string" && <pre className={styles.output}>$ {input.command}</pre>}
        {output && changes.length === 0 && (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: long output scrolls.
          <pre className={styles.output} tabIndex={0}>
            {output}
          </pre>
        )}
      </div>
    </details>
  );
}

/** The most informative argument, whose name depends on the tool. */
function firstText(input: Record<string, unknown>): string {
  for (const key of ["command", "filePath", "path", "pattern", "query", "url", "description"]) {
    const value = input[key];
    if (typeof value === "string") return value;
  }
  return "";
}
