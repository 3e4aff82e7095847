import styles from "./Command.module.css";
import { CopyButton } from "./CopyButton";

/** A command with a copy button. */
export function Command({ text }: { text: string }) {
  return (
    <div className={styles.command}>
      <code>{text}</code>
      <CopyButton text={text} label="Copy the command" />
    </div>
  );
}
