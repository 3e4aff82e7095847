/** Lines that are stored as one text. */
const BLOCK = 5_000;
/** Characters of all lines; of a longer log, the oldest lines are only in the download. */
const MAX_TEXT = 128 << 20;

interface Block {
  /** Number of its first line. */
  first: number;
  lines: number;
  text: string;
}

/**
 * The lines of a log before those that are shown, without colours. As a few long texts they need a fraction of the
 * memory that rendered lines need, so a whole log can be searched without fetching it again.
 */
export class EarlierLines {
  private blocks: Block[] = [];
  private characters = 0;
  private maxText: number;

  constructor(maxText = MAX_TEXT) {
    this.maxText = maxText;
  }

  /** Number of the first line that is kept. */
  get first(): number {
    return this.blocks[0]?.first ?? 1;
  }

  /** Number of the line after the last one. */
  get end(): number {
    const last = this.blocks.at(-1);
    return last ? last.first + last.lines : 1;
  }

  get count(): number {
    return this.end - this.first;
  }

  /** Adds the lines that follow the last one. `number` is the number of the first. */
  push(number: number, lines: string[]): void {
    for (let at = 0; at < lines.length; at += BLOCK) {
      const part = lines.slice(at, at + BLOCK);
      const block = { first: number + at, lines: part.length, text: part.join("\n") };
      this.blocks.push(block);
      this.characters += block.text.length;
    }
    while (this.characters > this.maxText && this.blocks.length > 1) {
      this.characters -= this.blocks.shift()?.text.length ?? 0;
    }
  }

  /** The lines from one number to before another, as far as they are kept. */
  slice(from: number, to: number): { number: number; text: string }[] {
    return this.blocks
      .filter((block) => block.first < to && block.first + block.lines > from)
      .flatMap((block) => block.text.split("\n").map((text, i) => ({ number: block.first + i, text })))
      .filter(({ number }) => number >= from && number < to);
  }

  /** The block of a line; `undefined` after the last one. Of lines that are not kept any more, the first block. */
  private blockOf(number: number): Block | undefined {
    return this.blocks.find((block) => number < block.first + block.lines);
  }

  /** All matches in the block of a line, and the number of the line after it; `undefined` after the last block. */
  searchBlock(number: number, wanted: string): { found: Place[]; next: number } | undefined {
    const block = this.blockOf(number);
    if (!block) return undefined;
    const text = block.text.toLowerCase();
    const found: Place[] = [];
    let line = block.first;
    let lineStart = 0;
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      for (let end = text.indexOf("\n", lineStart); end >= 0 && end < at; end = text.indexOf("\n", lineStart)) {
        lineStart = end + 1;
        line += 1;
      }
      if (line >= number) found.push({ number: line, start: at - lineStart });
    }
    return { found, next: block.first + block.lines };
  }
}

/** Where a match is. */
export interface Place {
  /** Number of the line. */
  number: number;
  start: number;
}
