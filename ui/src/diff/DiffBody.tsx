import { useMemo } from "react";
import { Code } from "../code/Code";
import type { Language } from "../code/languages";
import { type CodeLine, withChanges } from "../code/tokens";
import { useHighlightedTexts } from "../code/useHighlighted";
import { classes } from "../components/classes";
import { changedWords, type Hunk, type PatchLine, type Range, sideBySide } from "../lib/patch";
import styles from "./DiffBody.module.css";

export type Layout = "unified" | "split";

export interface DiffBodyProps {
  hunks: Hunk[];
  language: Language | undefined;
  layout: Layout;
  wrap: boolean;
  label: string;
}

const SIGNS: Record<PatchLine["kind"], string> = { same: " ", added: "+", removed: "−" };
const SPOKEN: Record<PatchLine["kind"], string> = { same: "", added: "added: ", removed: "removed: " };

/** The changed lines of a file, one below the other or side by side. */
export function DiffBody({ hunks, language, layout, wrap, label }: DiffBodyProps) {
  const colours = useColours(hunks, language);
  const words = useMemo(() => {
    const all = new Map<PatchLine, Range[]>();
    for (const hunk of hunks) for (const [line, ranges] of changedWords(hunk.lines)) all.set(line, ranges);
    return all;
  }, [hunks]);
  const code = (line: PatchLine) => (
    <span className={styles.code}>
      {SPOKEN[line.kind] !== "" && <span className="visually-hidden">{SPOKEN[line.kind]}</span>}
      <Code line={withChanges(colours.get(line) ?? [{ text: line.text }], words.get(line))} />
      {line.text === "" && "\n"}
      {line.unended && <span className={styles.unended}> (no newline at the end)</span>}
    </span>
  );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: a region of code, not a section of the page.
    <div className={styles.diff} role="group" aria-label={label} tabIndex={0}>
      <div className={classes(styles.lines, (wrap || layout === "split") && styles.wrap)}>
        {hunks.map((hunk) => (
          <div key={hunk.heading}>
            <div className={styles.hunk}>{hunk.heading}</div>
            {layout === "unified"
              ? hunk.lines.map((line) => (
                  <div
                    key={`${line.before ?? ""}:${line.after ?? ""}`}
                    className={classes(styles.line, styles[line.kind])}
                  >
                    <Numbered line={line.before} />
                    <Numbered line={line.after} />
                    <span className={styles.sign} aria-hidden="true">
                      {SIGNS[line.kind]}
                    </span>
                    {code(line)}
                  </div>
                ))
              : sideBySide(hunk.lines).map(({ left, right }) => (
                  <div key={`${left?.before ?? ""}:${right?.after ?? ""}`} className={styles.pair}>
                    <div className={classes(styles.half, left ? styles[left.kind] : styles.none)}>
                      <Numbered line={left?.before} />
                      <span className={styles.sign} aria-hidden="true">
                        {left && SIGNS[left.kind]}
                      </span>
                      {left && code(left)}
                    </div>
                    <div className={classes(styles.half, right ? styles[right.kind] : styles.none)}>
                      <Numbered line={right?.after} />
                      <span className={styles.sign} aria-hidden="true">
                        {right && SIGNS[right.kind]}
                      </span>
                      {right && code(right)}
                    </div>
                  </div>
                ))}
          </div>
        ))}
      </div>
    </div>
  );
}

function Numbered({ line }: { line: number | undefined }) {
  return (
    <span className={styles.number} aria-hidden="true">
      {line}
    </span>
  );
}

/**
 * The colours of all lines. The text of a hunk before and its text after the change are coloured each as a whole, so
 * that a comment over several lines keeps its colour.
 */
function useColours(hunks: Hunk[], language: Language | undefined): Map<PatchLine, CodeLine> {
  const sides = useMemo(
    () =>
      hunks.flatMap(({ lines }) => [
        lines.filter((line) => line.kind === "removed" || line.kind === "same"),
        lines.filter((line) => line.kind !== "removed"),
      ]),
    [hunks],
  );
  const texts = useMemo(() => sides.map((lines) => lines.map((line) => line.text).join("\n")), [sides]);
  const coloured = useHighlightedTexts(texts, language);
  return useMemo(() => {
    const colours = new Map<PatchLine, CodeLine>();
    sides.forEach((lines, side) => {
      lines.forEach((line, i) => {
        colours.set(line, coloured[side]?.[i] ?? []);
      });
    });
    return colours;
  }, [sides, coloured]);
}
