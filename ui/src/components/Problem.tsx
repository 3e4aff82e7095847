import { CircleAlert } from "lucide-react";
import styles from "./Problem.module.css";

/** An error in one line, next to the failed action. */
export function Problem({ error }: { error: unknown }) {
  const message = error instanceof Error ? error.message : String(error);
  return (
    <div className={styles.problem} role="alert">
      <CircleAlert size={14} aria-hidden="true" />
      <span>{message}</span>
    </div>
  );
}
