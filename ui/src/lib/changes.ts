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

/** Parses a unified diff. */
export function readUnified(diff: string): DiffLine[] {
  return diff
    .replace(/\n$/, "")
    .split("\n")
    .filter((line) => !/^(diff |index |Index: |=====|--- |\+\+\+ |\\ No newline)/.test(line))
    .map((line): DiffLine => {
      if (line.startsWith("@@")) return { kind: "skipped", text: line };
      if (line.startsWith("+")) return { kind: "added", text: line.slice(1) };
      if (line.startsWith("-")) return { kind: "removed", text: line.slice(1) };
      return { kind: "same", text: line.startsWith(" ") ? line.slice(1) : line };
    });
}
