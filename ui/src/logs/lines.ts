import { type AnsiSpan, parseAnsi } from "../lib/ansi";

export interface LogLine {
  /** Counts from the start of the stream, also when old lines were let go. */
  number: number;
  text: string;
  spans: AnsiSpan[];
  time?: string;
}

/** More lines than this are let go from the front; the download has them all. */
export const MOST_LINES = 50_000;

/** The lines of a log as they arrive. Colours go on from one line to the next. */
export class LogBuffer {
  lines: LogLine[] = [];
  dropped = 0;
  private look: Parameters<typeof parseAnsi>[1] = {};
  private next = 1;

  append(content: string, time?: string): void {
    for (const raw of content.replace(/\n$/, "").split("\n")) {
      const { spans, end } = parseAnsi(raw, this.look);
      this.look = end;
      this.lines.push({ number: this.next, text: spans.map((span) => span.text).join(""), spans, time });
      this.next += 1;
    }
    const excess = this.lines.length - MOST_LINES;
    // A tenth at once: dropping one by one would move the whole array for every line.
    if (excess > MOST_LINES / 10) {
      this.lines = this.lines.slice(excess);
      this.dropped += excess;
    }
  }
}

export interface Match {
  /** Index of the line among those that are kept. */
  line: number;
  start: number;
}

/** Every place where the words occur, whatever their case. */
export function findAll(lines: LogLine[], words: string): Match[] {
  if (words === "") return [];
  const wanted = words.toLowerCase();
  const found: Match[] = [];
  lines.forEach(({ text }, line) => {
    const low = text.toLowerCase();
    for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, at + wanted.length)) {
      found.push({ line, start: at });
    }
  });
  return found;
}

export interface MarkedSpan extends AnsiSpan {
  mark?: "match" | "current";
}

/** Cuts spans at the edges of matches, so that a match may cross colours. */
export function markSpans(
  spans: AnsiSpan[],
  starts: number[],
  length: number,
  current: number | undefined,
): MarkedSpan[] {
  if (starts.length === 0) return spans;
  const marked: MarkedSpan[] = [];
  let offset = 0;
  for (const span of spans) {
    let from = 0;
    while (from < span.text.length) {
      const position = offset + from;
      const inside = starts.find((start) => start <= position && position < start + length);
      const end =
        inside !== undefined
          ? inside + length
          : Math.min(...starts.filter((start) => start > position), offset + span.text.length);
      const to = Math.min(span.text.length, end - offset);
      marked.push({
        ...span,
        text: span.text.slice(from, to),
        ...(inside === undefined ? {} : { mark: inside === current ? "current" : "match" }),
      });
      from = to;
    }
    offset += span.text.length;
  }
  return marked;
}
