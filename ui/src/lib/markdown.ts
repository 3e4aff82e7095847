/** A block of a Markdown text. HTML is not read: it stays text. */
export type Block =
  | { type: "heading"; level: number; inlines: Inline[] }
  | { type: "paragraph"; inlines: Inline[] }
  | { type: "code"; text: string; language: string }
  | { type: "quote"; blocks: Block[] }
  | { type: "list"; ordered: boolean; start: number; items: ListItem[] }
  | { type: "table"; aligns: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { type: "rule" };

export interface ListItem {
  blocks: Block[];
  /** Set for items of a list of tasks. */
  done?: boolean;
}

export type Align = "left" | "center" | "right" | undefined;

export type Inline =
  | { type: "text"; text: string }
  | { type: "code"; text: string }
  | { type: "break" }
  | { type: "strong" | "emphasis" | "deleted"; inlines: Inline[] }
  | { type: "link"; href: string; inlines: Inline[] }
  | { type: "image"; src: string; alt: string };

/** Deeper blocks and inlines stay text, so that no text can exhaust the stack. */
const MAX_DEPTH = 16;
/** Longer paragraphs stay text: searching each marker's end would take long. */
const MAX_INLINE = 20_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*?))?(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])(?:( +)(.*))?$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DELIMITERS = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** Parses a Markdown text: headings, paragraphs, code, quotes, lists, tables, links, images and emphasis. */
export function parseMarkdown(text: string): Block[] {
  return blocksOf(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
}

function blocksOf(lines: string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let paragraph: string[] = [];
  const flush = () => {
    if (paragraph.length > 0) blocks.push({ type: "paragraph", inlines: inlinesOf(paragraph.join("\n").trim()) });
    paragraph = [];
  };
  const push = (block: Block) => {
    flush();
    blocks.push(block);
  };
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const next = lines[at + 1] ?? "";
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    const underline = paragraph.length > 0 && /^ {0,3}(=+|-+)\s*$/.exec(line);
    if (fence) {
      const end = endOfFence(lines, at, fence[1] ?? "```");
      push({ type: "code", language: fence[2] ?? "", text: lines.slice(at + 1, end).join("\n") });
      at = end + 1;
    } else if (line.trim() === "") {
      flush();
      at += 1;
    } else if (underline) {
      const inlines = inlinesOf(paragraph.join("\n").trim());
      paragraph = [];
      blocks.push({ type: "heading", level: underline[1]?.startsWith("=") ? 1 : 2, inlines });
      at += 1;
    } else if (heading) {
      push({ type: "heading", level: heading[1]?.length ?? 1, inlines: inlinesOf(heading[2] ?? "") });
      at += 1;
    } else if (RULE.test(line)) {
      push({ type: "rule" });
      at += 1;
    } else if (QUOTE.test(line) && depth < MAX_DEPTH) {
      let end = at;
      while (end < lines.length && QUOTE.test(lines[end] ?? "")) end += 1;
      const inside = lines.slice(at, end).map((quoted) => QUOTE.exec(quoted)?.[1] ?? "");
      push({ type: "quote", blocks: blocksOf(inside, depth + 1) });
      at = end;
    } else if (isItem(line, paragraph.length > 0) && depth < MAX_DEPTH) {
      const { list, end } = listAt(lines, at, depth);
      push(list);
      at = end;
    } else if (paragraph.length === 0 && line.includes("|") && DELIMITERS.test(next) && next.includes("-")) {
      const { table, end } = tableAt(lines, at);
      push(table);
      at = end;
    } else if (paragraph.length === 0 && /^ {4}/.test(line)) {
      let end = at;
      while (end < lines.length && /^(?: {4}|\s*$)/.test(lines[end] ?? "")) end += 1;
      push({
        type: "code",
        language: "",
        text: lines
          .slice(at, end)
          .map((code) => code.slice(4))
          .join("\n")
          .trimEnd(),
      });
      at = end;
    } else {
      paragraph.push(line);
      at += 1;
    }
  }
  flush();
  return blocks;
}

/** Index of the line that closes a fence, or after the last line. */
function endOfFence(lines: string[], at: number, opening: string): number {
  const mark = opening.charAt(0);
  for (let end = at + 1; end < lines.length; end += 1) {
    const text = (lines[end] ?? "").trim();
    if (text.length >= opening.length && text.replaceAll(mark, "") === "") return end;
  }
  return lines.length;
}

/** Only a list that begins with 1 interrupts a paragraph: `1984.` at the beginning of a line is a year. */
function isItem(line: string, inParagraph: boolean): boolean {
  const item = ITEM.exec(line);
  if (!item) return false;
  return !inParagraph || (Boolean(item[5]) && (item[3] === undefined || item[3] === "1"));
}

function listAt(lines: string[], from: number, depth: number): { list: Block; end: number } {
  const first = ITEM.exec(lines[from] ?? "");
  const ordered = first?.[3] !== undefined;
  const mark = first?.[2]?.at(-1);
  const items: ListItem[] = [];
  let at = from;
  while (at < lines.length) {
    const item = ITEM.exec(lines[at] ?? "");
    if (!item || item[2]?.at(-1) !== mark || RULE.test(lines[at] ?? "")) break;
    const [, indent = "", marker = "", , space = " ", content = ""] = item;
    // More than four spaces begin a block of code inside the item.
    const width = indent.length + marker.length + (space.length > 4 ? 1 : space.length);
    const inside = [content];
    at += 1;
    while (at < lines.length) {
      const line = lines[at] ?? "";
      const isBlank = line.trim() === "";
      const isInside = line.startsWith(" ".repeat(width));
      const continues = !isBlank && inside.at(-1)?.trim() !== "" && !isItem(line, false) && !startsBlock(line);
      if (!isBlank && !isInside && !continues) break;
      // A blank line belongs to the item only if an indented line follows.
      if (isBlank && !nextIsInside(lines, at, width)) break;
      inside.push(isInside ? line.slice(width) : line.trimStart());
      at += 1;
    }
    const box = /^\[([ xX])\]\s+/.exec(inside[0] ?? "");
    if (box) inside[0] = (inside[0] ?? "").slice(box[0].length);
    items.push({ blocks: blocksOf(inside, depth + 1), ...(box ? { done: box[1] !== " " } : {}) });
    while (at < lines.length && (lines[at] ?? "").trim() === "" && isItem(lines[at + 1] ?? "", false)) at += 1;
  }
  return { list: { type: "list", ordered, start: Number(first?.[3] ?? 1), items }, end: at };
}

function startsBlock(line: string): boolean {
  return FENCE.test(line) || HEADING.test(line) || QUOTE.test(line) || RULE.test(line);
}

function nextIsInside(lines: string[], at: number, width: number): boolean {
  const next = lines.slice(at + 1, at + 50).find((line) => line.trim() !== "");
  return next?.startsWith(" ".repeat(width)) ?? false;
}

function tableAt(lines: string[], at: number): { table: Block; end: number } {
  const aligns = cellsOf(lines[at + 1] ?? "").map((cell): Align => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : undefined;
  });
  const row = (line: string) => aligns.map((_, i) => inlinesOf(cellsOf(line)[i] ?? ""));
  let end = at + 2;
  while (end < lines.length && (lines[end] ?? "").includes("|")) end += 1;
  const table: Block = { type: "table", aligns, head: row(lines[at] ?? ""), rows: lines.slice(at + 2, end).map(row) };
  return { table, end };
}

function cellsOf(line: string): string[] {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function inlinesOf(text: string, depth = 0): Inline[] {
  if (depth > MAX_DEPTH || text.length > MAX_INLINE) return text === "" ? [] : [{ type: "text", text }];
  const inlines: Inline[] = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain !== "") inlines.push({ type: "text", text: plain });
    plain = "";
  };
  while (at < text.length) {
    const found = inlineAt(text, at, depth);
    if (found) {
      flush();
      inlines.push(found.inline);
      at = found.end;
    } else if (text[at] === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
    } else {
      plain += text[at] === "\n" ? " " : text[at];
      at += 1;
    }
  }
  flush();
  return inlines;
}

const PAIRS: [string, "strong" | "emphasis" | "deleted"][] = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "deleted"],
  ["*", "emphasis"],
  ["_", "emphasis"],
];

/** The inline that begins at a position, if one does. */
function inlineAt(text: string, at: number, depth: number): { inline: Inline; end: number } | undefined {
  const rest = text.slice(at, at + 4_096);
  switch (text[at]) {
    case "`": {
      const ticks = /^`+/.exec(rest)?.[0] ?? "`";
      const end = endOfCode(text, at + ticks.length, ticks.length);
      if (end === undefined) return undefined;
      const code = text.slice(at + ticks.length, end).replaceAll("\n", " ");
      return { inline: { type: "code", text: code.replace(/^ (.*\S.*) $/, "$1") }, end: end + ticks.length };
    }
    case "\n":
      return /(?: {2}|\\)$/.test(text.slice(0, at)) ? { inline: { type: "break" }, end: at + 1 } : undefined;
    case "!":
    case "[": {
      const link =
        /^(!?)\[((?:[^[\]\\]|\\.|\[[^[\]]*\](?:\([^()]*\))?)*)\]\(\s*<?([^\s<>()]*(?:\([^\s()]*\)[^\s<>()]*)*)>?(?:\s+["'(][^"')]*["')])?\s*\)/.exec(
          rest,
        );
      if (!link) return undefined;
      const [whole, isImage, label = "", target = ""] = link;
      const inline: Inline = isImage
        ? { type: "image", src: target, alt: label }
        : { type: "link", href: target, inlines: inlinesOf(label, depth + 1) };
      return { inline, end: at + whole.length };
    }
    case "<": {
      const link = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/.exec(rest);
      if (!link) return undefined;
      const href = link[1] ?? "";
      return { inline: { type: "link", href, inlines: [{ type: "text", text: href }] }, end: at + link[0].length };
    }
    case "h": {
      if (at > 0 && /\w/.test(text[at - 1] ?? "")) return undefined;
      const href = /^https?:\/\/[^\s<>]*[^\s<>.,:;!?'"()[\]*_~]/.exec(rest)?.[0];
      return href
        ? { inline: { type: "link", href, inlines: [{ type: "text", text: href }] }, end: at + href.length }
        : undefined;
    }
    case "*":
    case "_":
    case "~":
      for (const [mark, type] of PAIRS) {
        if (!rest.startsWith(mark)) continue;
        const end = endOfEmphasis(text, at, mark);
        if (end === undefined) continue;
        return {
          inline: { type, inlines: inlinesOf(text.slice(at + mark.length, end), depth + 1) },
          end: end + mark.length,
        };
      }
      return undefined;
    default:
      return undefined;
  }
}

/** Where a code span of `ticks` backticks ends. */
function endOfCode(text: string, from: number, ticks: number): number | undefined {
  let at = text.indexOf("`", from);
  while (at >= 0) {
    let length = 1;
    while (text[at + length] === "`") length += 1;
    if (length === ticks) return at;
    at = text.indexOf("`", at + length);
  }
  return undefined;
}

/** Where emphasis ends. Underscores inside words, and marks beside spaces, are no emphasis. */
function endOfEmphasis(text: string, at: number, mark: string): number | undefined {
  const inside = at + mark.length;
  if (/\s/.test(text[inside] ?? " ")) return undefined;
  const isWord = (char: string | undefined) => char !== undefined && /\w/.test(char);
  const underscore = mark.startsWith("_");
  if (underscore && isWord(text[at - 1])) return undefined;
  for (let end = text.indexOf(mark, inside + 1); end >= 0; end = text.indexOf(mark, end + 1)) {
    const isDouble = mark.length === 1 && (text[end + 1] === mark || text[end - 1] === mark);
    if (isDouble || /[\s\\]/.test(text[end - 1] ?? "") || (underscore && isWord(text[end + mark.length]))) continue;
    return end;
  }
  return undefined;
}

/** The address of a link if it may be opened: pages and mail, never scripts or data. */
export function safeHref(href: string): string | undefined {
  return /^(?:https?:\/\/|mailto:)/i.test(href) ? href : undefined;
}
