import { classes } from "../components/classes";
import styles from "./Code.module.css";
import type { CodeLine } from "./tokens";

/** The tokens of a line of code. */
export function Code({ line }: { line: CodeLine }) {
  return line.map(({ text, kind, changed }, i) => {
    const className = classes(kind && styles[kind], changed && styles.changed);
    return className === "" ? (
      text
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: tokens of a line are not reordered.
      <span key={i} className={className}>
        {text}
      </span>
    );
  });
}
