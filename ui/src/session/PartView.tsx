import type { SessionPart } from "../api/types";
import { ToolCall } from "./ToolCall";
import styles from "./Transcript.module.css";

/** One part of a message; step markers are not shown. */
export function PartView({ part }: { part: SessionPart }) {
  switch (part.type) {
    case "text":
      return part.text?.trim() ? <div className={styles.text}>{part.text.trim()}</div> : null;
    case "reasoning":
      return part.text?.trim() ? (
        <details className={styles.thought}>
          <summary>Reasoning</summary>
          <div className={styles.text}>{part.text.trim()}</div>
        </details>
      ) : null;
    case "tool":
      return <ToolCall part={part} />;
    case "file":
      return <div className="quiet">File {part.filename}</div>;
    case "patch":
      return part.files && part.files.length > 0 ? <div className="quiet">Changed {part.files.join(", ")}</div> : null;
    default:
      return null;
  }
}
