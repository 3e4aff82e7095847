import type { SessionPart } from "../api/types";
import { Marked } from "./search";
import { ToolCall } from "./ToolCall";
import styles from "./Transcript.module.css";

/** One part of a message; step markers are not shown. */
export function PartView({ part, search }: { part: SessionPart; search: string }) {
  const text = part.text?.trim();
  switch (part.type) {
    case "text":
      return text ? (
        <div className={styles.text}>
          <Marked text={text} search={search} />
        </div>
      ) : null;
    case "reasoning":
      return text ? (
        <details className={styles.thought} open={search !== ""}>
          <summary>Reasoning</summary>
          <div className={styles.text}>
            <Marked text={text} search={search} />
          </div>
        </details>
      ) : null;
    case "tool":
      return <ToolCall part={part} search={search} />;
    case "file":
      return <div className="quiet">File {part.filename}</div>;
    case "patch":
      return part.files && part.files.length > 0 ? <div className="quiet">Changed {part.files.join(", ")}</div> : null;
    default:
      return null;
  }
}
