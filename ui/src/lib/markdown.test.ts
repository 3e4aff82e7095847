import { expect, test } from "vitest";
import { type Block, type Inline, parseMarkdown, safeHref } from "./markdown";

/** The inlines in a short form. */
function short(inlines: Inline[]): string {
  return inlines
    .map((inline) => {
      switch (inline.type) {
        case "text":
          return inline.text;
        case "break":
          return "|";
        case "code":
          return `code(${inline.text})`;
        case "image":
          return `image(${inline.src}, ${inline.alt})`;
        case "link":
          return `link(${inline.href}, ${short(inline.inlines)})`;
        default:
          return `${inline.type}(${short(inline.inlines)})`;
      }
    })
    .join("");
}

function shape(block: Block): unknown {
  switch (block.type) {
    case "heading":
      return [`h${block.level}`, short(block.inlines)];
    case "paragraph":
      return short(block.inlines);
    case "code":
      return ["code", block.language, block.text];
    case "quote":
      return ["quote", ...block.blocks.map(shape)];
    case "list":
      return [
        block.ordered ? `ol ${block.start}` : "ul",
        ...block.items.map((item) => [...(item.done === undefined ? [] : [item.done]), ...item.blocks.map(shape)]),
      ];
    case "table":
      return ["table", block.aligns, block.head.map(short), ...block.rows.map((row) => row.map(short))];
    case "rule":
      return "rule";
  }
}

const check = (text: string, ...expected: unknown[]) => expect(parseMarkdown(text).map(shape)).toEqual(expected);

test("headings, paragraphs and rules", () => {
  check("# Report #\nOne\ntwo\n\n---\nTitle\n=====\n", ["h1", "Report"], "One two", "rule", ["h1", "Title"]);
  check("#no heading", "#no heading");
});

test("fenced code is not read, and may lack its end", () => {
  check("```ts\n# const\n```\nafter", ["code", "ts", "# const"], "after");
  check("~~~~\n```\n~~~\n", ["code", "", "```\n~~~\n"]);
  check("    let x\n\n    let y\n", ["code", "", "let x\n\nlet y"]);
});

test("lists are nested, numbered and of tasks", () => {
  check("- a\n  - b\n\n    more\n- c", ["ul", ["a", ["ul", ["b", "more"]]], ["c"]]);
  check("3. x\n4. y", ["ol 3", ["x"], ["y"]]);
  check("* [x] done\n* [ ] open", ["ul", [true, "done"], [false, "open"]]);
  check("- a\ncontinued\n\n- b\n\nText", ["ul", ["a continued"], ["b"]], "Text");
  check("It was in\n1984. A year.", "It was in 1984. A year.");
});

test("quotes contain blocks", () => {
  check("> # A\n> - b\n", ["quote", ["h1", "A"], ["ul", ["b"]]]);
});

test("a table has as many columns as its delimiters", () => {
  check(
    "| a | b |\n|:--|--:|\n| 1 | `x` | 3 |\n| 2 |\nText",
    ["table", ["left", "right"], ["a", "b"], ["1", "code(x)"], ["2", ""]],
    "Text",
  );
});

test("inlines", () => {
  check("**bold *and* more** ~~gone~~", "strong(bold emphasis(and) more) deleted(gone)");
  check("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4");
  check("``a ` b`` \\*no\\*", "code(a ` b) *no*");
  check(
    '[text](https://a.example/x_(y) "title") ![alt](a/b.png)',
    "link(https://a.example/x_(y), text) image(a/b.png, alt)",
  );
  check(
    "see https://a.example/b. <mailto:a@b.example>",
    "see link(https://a.example/b, https://a.example/b). link(mailto:a@b.example, mailto:a@b.example)",
  );
  check("one  \ntwo", "one  |two");
});

test("HTML stays text", () => {
  check("<script>alert(1)</script>", "<script>alert(1)</script>");
  check("a <img src=x onerror=alert(1)> b", "a <img src=x onerror=alert(1)> b");
});

test("only pages and mail are links", () => {
  expect(
    [
      "https://a",
      "http://a",
      "mailto:a@b",
      "javascript:alert(1)",
      "data:text/html,x",
      "//a",
      "/a",
      " javascript:x",
    ].map(safeHref),
  ).toEqual(["https://a", "http://a", "mailto:a@b", undefined, undefined, undefined, undefined, undefined]);
});

test.each([
  ["quotes", "> ".repeat(20_000)],
  ["lists", "- ".repeat(20_000)],
  ["stars", "*a ".repeat(6_000)],
  ["brackets", "[".repeat(19_000)],
  ["backticks", "`a``".repeat(4_000)],
  ["links", "[a](".repeat(4_000)],
  ["blank items", "- a\n\n".repeat(50_000)],
])("a hostile text of %s is parsed", (_name, text) => {
  expect(parseMarkdown(text).length).toBeGreaterThan(0);
});
