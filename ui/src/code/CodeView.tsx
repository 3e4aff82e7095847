import { classes } from "../components/classes";
import { Code } from "./Code";
import styles from "./CodeView.module.css";
import { languageOf } from "./languages";
import { useHighlighted } from "./useHighlighted";

export interface CodeViewProps {
  text: string;
  /** Determines the colours. */
  path: string;
  wrap: boolean;
  label: string;
}

/** A text with line numbers and colours. */
export function CodeView({ text, path, wrap, label }: CodeViewProps) {
  const lines = useHighlighted(text.replace(/\n$/, ""), languageOf(path));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: a region of code, not a section of the page.
    <div className={classes(styles.view, wrap && styles.wrap)} role="group" aria-label={label} tabIndex={0}>
      <div className={styles.lines}>
        {lines.map((line, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines are never moved.
          <div key={i} className={styles.line}>
            <span className={styles.number} aria-hidden="true">
              {i + 1}
            </span>
            <span className={styles.text}>{line.length === 0 ? "\n" : <Code line={line} />}</span>
          </div>
        ))}
      </div>
    </div>
  );
}
