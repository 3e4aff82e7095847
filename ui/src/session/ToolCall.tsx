import { CircleCheck, CircleX, LoaderCircle } from "lucide-react";
import type { SessionPart } from "../api/types";
import { DiffView } from "../components/DiffView";
import { changesOfCall } from "../lib/fileChanges";
import styles from "./Transcript.module.css";

const LOOKS = {
  completed: { icon: CircleCheck, className: styles.good, word: "done" },
  error: { icon: CircleX, className: styles.bad, word: "failed" },
  running: { icon: LoaderCircle, className: styles.busy, word: "running" },
  pending: { icon: LoaderCircle, className: styles.busy, word: "waiting" },
};

/** A tool that the agent used: what for, and what came of it. Changes of files are open, the rest is folded. */
export function ToolCall({ part }: { part: SessionPart }) {
  const state = part.state ?? {};
  const look = LOOKS[state.status ?? "pending"];
  const input = state.input ?? {};
  const title = state.title ?? firstText(input);
  const changes = changesOfCall(part);
  const output = state.error ?? state.output;
  const Icon = look.icon;
  return (
    <details className={styles.tool} open={changes.length > 0}>
      <summary>
        <Icon size={14} className={look.className} aria-hidden="true" />
        <strong>{part.tool}</strong>
        <span className={`${styles.toolTitle} truncate mono`}>{title}</span>
        <span className="visually-hidden">{look.word}</span>
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

/** The most telling argument: tools name it differently. */
function firstText(input: Record<string, unknown>): string {
  for (const key of ["command", "filePath", "path", "pattern", "query", "url", "description"]) {
    const value = input[key];
    if (typeof value === "string") return value;
  }
  return "";
}
