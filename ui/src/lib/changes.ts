import { diffLines } from "diff";

export interface DiffLine {
  kind: "same" | "added" | "removed" | "skipped";
  text: string;
}

/** Unchanged lines around a change; longer ranges are folded. */
const AROUND = 3;

/** Line diff of two texts, with long unchanged ranges folded. */
export function changesBetween(before: string, after: string): DiffLine[] {
  const lines: DiffLine[] = diffLines(before, after).flatMap((part) => {
    const kind = part.added ? "added" : part.removed ? "removed" : "same";
    return part.value
      .replace(/\n$/, "")
      .split("\n")
      .map((text): DiffLine => ({ kind, text }));
  });
  return fold(lines);
}

function fold(lines: DiffLine[]): DiffLine[] {
  const near = new Array<boolean>(lines.length).fill(false);
  lines.forEach((line, i) => {
    if (line.kind === "same") return;
    for (let j = Math.max(0, i - AROUND); j <= Math.min(lines.length - 1, i + AROUND); j += 1) near[j] = true;
  });
  const folded: DiffLine[] = [];
  let skipped = 0;
  const flush = () => {
    if (skipped > 0) folded.push({ kind: "skipped", text: `${skipped} unchanged ${skipped === 1 ? "line" : "lines"}` });
    skipped = 0;
  };
  lines.forEach((line, i) => {
    if (near[i]) {
      flush();
      folded.push(line);
    } else skipped += 1;
  });
  flush();
  return folded;
}

/**
 * Parses a unified diff. Headers of hunks contain the numbers of lines, so that a removed line `-- x` is not taken for a
 * header of the file.
 */
export function readUnified(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 0;
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
    if (before <= 0 && after <= 0) {
      if (!hunk) continue;
      before = Number(hunk[1] ?? 1);
      after = Number(hunk[2] ?? 1);
      lines.push({ kind: "skipped", text: line });
    } else if (line.startsWith("+")) {
      after -= 1;
      lines.push({ kind: "added", text: line.slice(1) });
    } else if (line.startsWith("-")) {
      before -= 1;
      lines.push({ kind: "removed", text: line.slice(1) });
    } else if (!line.startsWith("\\")) {
      before -= 1;
      after -= 1;
      lines.push({ kind: "same", text: line.startsWith(" ") ? line.slice(1) : line });
    }
  }
  return lines;
}
