import { CircleAlert } from "lucide-react";
import styles from "./Problem.module.css";

/** A refusal in one line, beside what was tried. */
export function Problem({ error }: { error: unknown }) {
  const message = error instanceof Error ? error.message : String(error);
  return (
    <div className={styles.problem} role="alert">
      <CircleAlert size={14} aria-hidden="true" />
      <span>{message}</span>
    </div>
  );
}
