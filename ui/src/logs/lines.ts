import { type AnsiSpan, parseAnsi } from "../lib/ansi";
import { EarlierLines, type Place } from "./earlier";

export interface LogLine {
  /** Counts from the start of the stream, including dropped lines. */
  number: number;
  text: string;
  spans: AnsiSpan[];
  time?: string;
}

/** Older lines are not shown, but can be searched. */
export const MAX_LINES = 50_000;

/** Buffer of log lines. The style at the end of a line applies to the next line. */
export class LogBuffer {
  lines: LogLine[] = [];
  readonly earlier = new EarlierLines();
  dropped = 0;
  private style: Parameters<typeof parseAnsi>[1] = {};
  private next = 1;

  append(content: string, time?: string): void {
    for (const raw of content.replace(/\n$/, "").split("\n")) {
      const { spans, end } = parseAnsi(raw, this.style);
      this.style = end;
      this.lines.push({ number: this.next, text: spans.map((span) => span.text).join(""), spans, time });
      this.next += 1;
    }
    const excess = this.lines.length - MAX_LINES;
    // Drops 10% at once: dropping single lines would move the array for every line.
    if (excess > MAX_LINES / 10) {
      this.earlier.push(
        this.dropped + 1,
        this.lines.slice(0, excess).map((line) => line.text),
      );
      this.lines = this.lines.slice(excess);
      this.dropped += excess;
    }
  }
}

/** All case-insensitive matches. */
export function findAll(lines: LogLine[], text: string): Place[] {
  if (text === "") return [];
  const wanted = text.toLowerCase();
  const found: Place[] = [];
  for (const { text, number } of lines) {
    const low = text.toLowerCase();
    for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, at + wanted.length)) {
      found.push({ number, start: at });
    }
  }
  return found;
}

export interface MarkedSpan extends AnsiSpan {
  mark?: "match" | "current";
}

/** Splits spans at the bounds of matches, so that a match can span several colours. */
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
