/** Consecutive characters of the same style. Colours are names (`red`), or `#rrggbb` for the 256 and true colours. */
export interface AnsiSpan {
  text: string;
  color?: string;
  background?: string;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
}

type Style = Omit<AnsiSpan, "text">;

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"] as const;

// Control sequences: colours are `ESC [ … m`; every other CSI, OSC and two-byte escape is dropped.
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what this file reads.
const ESCAPE = /\u001b(?:\[([0-9;:]*)([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: other control characters are not displayed.
const CONTROL = /[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f]/g;

/**
 * Splits one line into spans. A carriage return restarts the line, as in a terminal.
 * Returns the style at the end of the line, which applies to the next line.
 */
export function parseAnsi(line: string, start: Style = {}): { spans: AnsiSpan[]; end: Style } {
  const spans: AnsiSpan[] = [];
  let style: Style = start;
  let from = 0;
  const push = (raw: string) => {
    const restart = raw.replace(/\r+$/, "").lastIndexOf("\r");
    if (restart >= 0) spans.length = 0;
    const text = (restart >= 0 ? raw.slice(restart + 1) : raw).replace(CONTROL, "");
    if (text !== "") spans.push({ text, ...style });
  };
  for (const match of line.matchAll(ESCAPE)) {
    push(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") style = applyCodes(style, match[1] ?? "");
  }
  push(line.slice(from));
  return { spans, end: style };
}

function applyCodes(style: Style, parameters: string): Style {
  const codes = parameters === "" ? [0] : parameters.split(/[;:]/).map(Number);
  let next: Style = { ...style };
  for (let i = 0; i < codes.length; i += 1) {
    const code = codes[i] ?? 0;
    if (code === 0) next = {};
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) {
      delete next.bold;
      delete next.dim;
    } else if (code === 23) delete next.italic;
    else if (code === 24) delete next.underline;
    else if (code >= 30 && code <= 37) next.color = NAMES[code - 30];
    else if (code >= 90 && code <= 97) next.color = NAMES[code - 90];
    else if (code === 39) delete next.color;
    else if (code >= 40 && code <= 47) next.background = NAMES[code - 40];
    else if (code >= 100 && code <= 107) next.background = NAMES[code - 100];
    else if (code === 49) delete next.background;
    else if (code === 38 || code === 48) {
      const [color, used] = extendedColor(codes, i + 1);
      if (code === 38) next.color = color;
      else next.background = color;
      i += used;
    }
  }
  return next;
}

/** `5;n` is one of 256 colours, `2;r;g;b` a true one. Returns how many codes it took. */
function extendedColor(codes: number[], at: number): [string | undefined, number] {
  if (codes[at] === 5) return [indexed(codes[at + 1] ?? 0), 2];
  if (codes[at] === 2) return [hex(codes[at + 1] ?? 0, codes[at + 2] ?? 0, codes[at + 3] ?? 0), 4];
  return [undefined, 0];
}

function indexed(n: number): string | undefined {
  if (n < 16) return NAMES[n % 8];
  if (n >= 232) {
    const grey = 8 + (n - 232) * 10;
    return hex(grey, grey, grey);
  }
  const cube = n - 16;
  const level = (v: number) => (v === 0 ? 0 : 55 + v * 40);
  return hex(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function hex(r: number, g: number, b: number): string {
  const part = (v: number) => Math.min(255, Math.max(0, v)).toString(16).padStart(2, "0");
  return `#${part(r)}${part(g)}${part(b)}`;
}
