import type { DiffLine } from "../lib/changes";
import { classes } from "./classes";
import styles from "./DiffView.module.css";
import surface from "./surface.module.css";
import tones from "./tones.module.css";

const SIGNS: Record<DiffLine["kind"], string> = { same: " ", added: "+", removed: "−", skipped: "⋯" };

const LOOKS: Record<DiffLine["kind"], string | undefined> = {
  same: undefined,
  added: tones.good,
  removed: tones.bad,
  skipped: styles.skipped,
};

/** Added and removed lines, marked by signs and colours. */
export function DiffView({ lines, label }: { lines: DiffLine[]; label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: a region of code, not a section of the page.
    <div className={classes(surface.framed, styles.diff)} role="group" aria-label={label} tabIndex={0}>
      {lines.map((line, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines are never moved.
        <div key={i} className={classes(styles.line, LOOKS[line.kind])}>
          <span aria-hidden="true">{SIGNS[line.kind]}</span>
          <span>
            {line.kind === "added" && <span className="visually-hidden">added: </span>}
            {line.kind === "removed" && <span className="visually-hidden">removed: </span>}
            {line.text || " "}
          </span>
        </div>
      ))}
    </div>
  );
}
