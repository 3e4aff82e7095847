import { classes } from "../components/classes";
import styles from "./LogView.module.css";
import type { MarkedSpan } from "./lines";

function colour(value: string | undefined): string | undefined {
  if (!value) return undefined;
  return value.startsWith("#") ? value : `var(--ansi-${value})`;
}

/** A log line with colours and search matches. */
export function AnsiText({ spans }: { spans: MarkedSpan[] }) {
  return spans.map((span, i) => {
    const className = classes(
      span.bold && styles.bold,
      span.dim && styles.dim,
      span.italic && styles.italic,
      span.underline && styles.underline,
      span.mark && styles[span.mark],
    );
    const style = span.mark ? undefined : { color: colour(span.color), backgroundColor: colour(span.background) };
    const Element = span.mark ? "mark" : "span";
    return (
      // biome-ignore lint/suspicious/noArrayIndexKey: spans of a line are not reordered.
      <Element key={i} className={className || undefined} style={style}>
        {span.text}
      </Element>
    );
  });
}
