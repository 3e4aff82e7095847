import { CircleCheck, CircleX, LoaderCircle } from "lucide-react";
import { type MouseEvent, useEffect, useRef, useState } from "react";
import type { SessionPart } from "../api/types";
import { DiffView } from "../components/DiffView";
import { changesOfCall } from "../lib/fileChanges";
import { contains, Marked } from "./search";
import styles from "./Transcript.module.css";

const STATUSES = {
  completed: { icon: CircleCheck, className: styles.good, label: "done" },
  error: { icon: CircleX, className: styles.bad, label: "failed" },
  running: { icon: LoaderCircle, className: styles.busy, label: "running" },
  pending: { icon: LoaderCircle, className: styles.busy, label: "waiting" },
};

/** Output of a finished command with more lines is collapsed. */
const LONG = 12;

/**
 * A tool call with its result. File changes and the output of a running or short command are expanded, other output is
 * collapsed unless it contains what the user searches.
 */
export function ToolCall({ part, search = "" }: { part: SessionPart; search?: string }) {
  const [chosen, setChosen] = useState<boolean>();
  const state = part.state ?? {};
  const running = state.status === "running";
  const status = STATUSES[state.status ?? "pending"];
  const input = state.input ?? {};
  const title = state.title ?? firstText(input);
  const changes = changesOfCall(part);
  const output = state.error ?? state.output ?? printed(part);
  const isCommand = typeof input.command === "string";
  const isShort = output !== undefined && output.split("\n").length <= LONG;
  const isFound = search !== "" && contains(part, search);
  const open = chosen ?? (isFound || changes.length > 0 || (isCommand && (running ? Boolean(output) : isShort)));
  const toggle = (event: MouseEvent) => {
    event.preventDefault();
    setChosen(!open);
  };
  const Icon = status.icon;
  return (
    <details className={styles.tool} open={open}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a summary is a button. */}
      <summary onClick={toggle}>
        <Icon size={14} className={status.className} aria-hidden="true" />
        <strong>{part.tool}</strong>
        <span className={`${styles.toolTitle} truncate mono`}>
          <Marked text={title} search={search} />
        </span>
        <span className="visually-hidden">{status.label}</span>
      </summary>
      <div className={styles.toolBody}>
        {changes.map((change) => (
          <DiffView key={change.path} lines={change.lines} label={`Change of ${change.path}`} />
        ))}
        {isCommand && (
          <pre className={styles.output}>
            $ <Marked text={String(input.command)} search={search} />
          </pre>
        )}
        {output && changes.length === 0 && <Output text={output} search={search} follow={running} />}
      </div>
    </details>
  );
}

/** Output that scrolls; of a running command, to its end. */
function Output({ text, search, follow }: { text: string; search: string; follow: boolean }) {
  const box = useRef<HTMLPreElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text moves the end.
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, follow]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: long output scrolls.
    <pre className={styles.output} ref={box} tabIndex={0} aria-live={follow ? "off" : undefined}>
      <Marked text={text} search={search} />
    </pre>
  );
}

/** What a command has printed so far. */
function printed(part: SessionPart): string | undefined {
  const output = part.state?.metadata?.output;
  return typeof output === "string" ? output : undefined;
}

/** The most informative argument, whose name depends on the tool. */
function firstText(input: Record<string, unknown>): string {
  for (const key of ["command", "filePath", "path", "pattern", "query", "url", "description"]) {
    const value = input[key];
    if (typeof value === "string") return value;
  }
  return "";
}
