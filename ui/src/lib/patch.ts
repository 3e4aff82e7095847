import { diffWordsWithSpace } from "diff";

/** A line of a patch, with its number before and after the change. */
export interface PatchLine {
  kind: "same" | "added" | "removed";
  text: string;
  before?: number;
  after?: number;
  /** It is the last line and does not end with a newline. */
  unended?: boolean;
}

export interface Hunk {
  /** `@@ -1,2 +1,3 @@`, and the function around it. */
  heading: string;
  lines: PatchLine[];
}

export interface Patch {
  hunks: Hunk[];
  /** The modes of the file, if they changed: `100644 → 100755`. */
  modes?: string;
}

/** Parses the unified diff of one file. */
export function readPatch(patch: string): Patch {
  const hunks: Hunk[] = [];
  const modes: { before?: string; after?: string } = {};
  let [before, after, beforeLeft, afterLeft] = [0, 0, 0, 0];
  for (const line of patch.replace(/\n$/, "").split("\n")) {
    const hunk = hunks.at(-1);
    if (line.startsWith("\\")) {
      const last = hunk?.lines.at(-1);
      if (last) last.unended = true;
      continue;
    }
    // Headers of hunks contain the numbers of lines, so that a removed line `-- x` is not taken for a header.
    if (beforeLeft <= 0 && afterLeft <= 0) {
      const header = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      if (header) {
        before = Number(header[1]);
        beforeLeft = Number(header[2] ?? 1);
        after = Number(header[3]);
        afterLeft = Number(header[4] ?? 1);
        hunks.push({ heading: line, lines: [] });
      } else {
        const mode = /^(old|new) mode (\d+)$/.exec(line);
        if (mode) modes[mode[1] === "old" ? "before" : "after"] = mode[2];
      }
      continue;
    }
    if (!hunk) continue;
    if (line.startsWith("+")) {
      hunk.lines.push({ kind: "added", text: line.slice(1), after });
      after += 1;
      afterLeft -= 1;
    } else if (line.startsWith("-")) {
      hunk.lines.push({ kind: "removed", text: line.slice(1), before });
      before += 1;
      beforeLeft -= 1;
    } else {
      // Some tools remove the space of an empty line.
      hunk.lines.push({ kind: "same", text: line.slice(1), before, after });
      before += 1;
      after += 1;
      beforeLeft -= 1;
      afterLeft -= 1;
    }
  }
  return { hunks, ...(modes.before && modes.after ? { modes: `${modes.before} → ${modes.after}` } : {}) };
}

/** Two lines that stand beside each other; a side without a line is empty. */
export interface Pair {
  left?: PatchLine;
  right?: PatchLine;
}

/** The lines of a hunk side by side: removed lines beside the added lines that follow them. */
export function sideBySide(lines: PatchLine[]): Pair[] {
  const pairs: Pair[] = [];
  let removed: PatchLine[] = [];
  let added: PatchLine[] = [];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i += 1)
      pairs.push({ left: removed[i], right: added[i] });
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === "removed") {
      if (added.length > 0) flush();
      removed.push(line);
    } else if (line.kind === "added") added.push(line);
    else {
      flush();
      pairs.push({ left: line, right: line });
    }
  }
  flush();
  return pairs;
}

/** A part of a line, from the first to before the last character. */
export interface Range {
  from: number;
  to: number;
}

/** Longer lines are not compared word by word. */
const MAX_COMPARED = 400;
/** Lines that have less than this part in common are different lines, not changed ones. */
const MIN_ALIKE = 0.4;

/** The parts of a removed and of an added line that differ; `undefined` if the lines have little in common. */
export function wordChanges(before: string, after: string): { before: Range[]; after: Range[] } | undefined {
  if (before.length > MAX_COMPARED || after.length > MAX_COMPARED) return undefined;
  const ranges: { before: Range[]; after: Range[] } = { before: [], after: [] };
  let [left, right, alike] = [0, 0, 0];
  for (const part of diffWordsWithSpace(before, after)) {
    const { length } = part.value;
    if (part.removed) {
      ranges.before.push({ from: left, to: left + length });
      left += length;
    } else if (part.added) {
      ranges.after.push({ from: right, to: right + length });
      right += length;
    } else {
      left += length;
      right += length;
      alike += part.value.trim().length;
    }
  }
  const longest = Math.max(before.trim().length, after.trim().length);
  return longest > 0 && alike / longest >= MIN_ALIKE ? ranges : undefined;
}

/** The changed parts of the lines of a hunk. */
export function changedWords(lines: PatchLine[]): Map<PatchLine, Range[]> {
  const words = new Map<PatchLine, Range[]>();
  for (const { left, right } of sideBySide(lines)) {
    if (left?.kind !== "removed" || right?.kind !== "added") continue;
    const changes = wordChanges(left.text, right.text);
    if (!changes) continue;
    words.set(left, changes.before);
    words.set(right, changes.after);
  }
  return words;
}
