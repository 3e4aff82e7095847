import styles from "./Command.module.css";
import { CopyButton } from "./CopyButton";

/** A command to copy. */
export function Command({ text }: { text: string }) {
  return (
    <div className={styles.command}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long command scrolls, and must do so by keyboard too. */}
      <code tabIndex={0}>{text}</code>
      <CopyButton text={text} label="Copy the command" />
    </div>
  );
}
