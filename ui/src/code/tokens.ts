import type { Range } from "../lib/patch";

export type TokenKind = "keyword" | "string" | "number" | "comment" | "title" | "type" | "attribute" | "meta";

/** A part of a line of code. */
export interface Token {
  text: string;
  kind?: TokenKind;
  /** It differs from the line beside it. */
  changed?: boolean;
}

export type CodeLine = Token[];

/** The scopes of highlight.js by the colours of the page. Other scopes have the colour of the scope around them. */
const KINDS: Record<string, TokenKind> = {
  keyword: "keyword",
  "selector-tag": "keyword",
  operator: "keyword",
  deletion: "keyword",
  string: "string",
  regexp: "string",
  char: "string",
  "template-tag": "string",
  addition: "string",
  code: "string",
  link: "string",
  number: "number",
  literal: "number",
  symbol: "number",
  bullet: "number",
  comment: "comment",
  quote: "comment",
  doctag: "comment",
  title: "title",
  section: "title",
  name: "title",
  "selector-id": "title",
  "selector-class": "title",
  type: "type",
  built_in: "type",
  attr: "attribute",
  attribute: "attribute",
  property: "attribute",
  "selector-attr": "attribute",
  variable: "attribute",
  "template-variable": "attribute",
  meta: "meta",
  tag: "meta",
};

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

/**
 * The lines of a text that highlight.js has marked up. Its HTML has only `<span class="hljs-…">` and the five entities,
 * so it is read as data, and no HTML reaches the document.
 */
export function linesOf(html: string): CodeLine[] {
  const lines: CodeLine[] = [[]];
  const open: (TokenKind | undefined)[] = [];
  for (const [piece, scope] of html.matchAll(/<span class="hljs-([\w-]+)[^"]*">|<span[^>]*>|<\/span>|[^<]+/g)) {
    if (piece === "</span>") open.pop();
    else if (piece.startsWith("<span")) open.push(KINDS[scope ?? ""] ?? open.at(-1));
    else {
      const text = piece.replace(/&(?:amp|lt|gt|quot|#x27);/g, (entity) => ENTITIES[entity] ?? entity);
      text.split("\n").forEach((part, i) => {
        if (i > 0) lines.push([]);
        if (part !== "") lines.at(-1)?.push({ text: part, kind: open.at(-1) });
      });
    }
  }
  return lines;
}

/** The line with changed parts marked. */
export function withChanges(line: CodeLine, ranges: Range[] | undefined): CodeLine {
  if (!ranges || ranges.length === 0) return line;
  const marked: CodeLine = [];
  let offset = 0;
  for (const token of line) {
    let from = 0;
    while (from < token.text.length) {
      const at = offset + from;
      const inside = ranges.find((range) => range.from <= at && at < range.to);
      const next = inside?.to ?? Math.min(...ranges.map((range) => range.from).filter((start) => start > at), Infinity);
      const to = Math.min(token.text.length, next - offset);
      marked.push({ ...token, text: token.text.slice(from, to), ...(inside ? { changed: true } : {}) });
      from = to;
    }
    offset += token.text.length;
  }
  return marked;
}
