import { expect, test } from "vitest";
import { highlight } from "./highlighter";
import { languageOf } from "./languages";
import { linesOf, withChanges } from "./tokens";

const texts = (lines: { text: string }[][]) => lines.map((line) => line.map(({ text }) => text).join(""));

test("highlighting changes no character", () => {
  const code = "const a = `<b>&amp; \u0024{1}`;\n\n/* two\nlines */\n";
  expect(texts(highlight(code, "typescript"))).toEqual(code.split("\n"));
});

test("a comment keeps its colour on its second line", () => {
  const lines = highlight("/* one\ntwo */ let x", "rust");
  expect(lines[1]?.[0]).toEqual({ text: "two */", kind: "comment" });
  expect(lines[1]?.find(({ text }) => text === "let")?.kind).toBe("keyword");
});

test("a scope without a colour has the colour around it", () => {
  expect(linesOf('<span class="hljs-string">a<span class="hljs-subst">b</span></span>c')).toEqual([
    [
      { text: "a", kind: "string" },
      { text: "b", kind: "string" },
      { text: "c", kind: undefined },
    ],
  ]);
});

test("a changed part is marked across tokens", () => {
  const line = [{ text: "let ", kind: "keyword" as const }, { text: "total" }];
  expect(withChanges(line, [{ from: 2, to: 6 }])).toEqual([
    { text: "le", kind: "keyword" },
    { text: "t ", kind: "keyword", changed: true },
    { text: "to", changed: true },
    { text: "tal" },
  ]);
});

test("the language of a file follows from its name", () => {
  const cases = {
    "src/a.test.tsx": "typescript",
    Dockerfile: "dockerfile",
    "Dockerfile.dev": "dockerfile",
    LICENSE: undefined,
  };
  expect(Object.fromEntries(Object.keys(cases).map((path) => [path, languageOf(path)]))).toEqual(cases);
  expect([languageOf("a/Makefile"), languageOf(".bashrc"), languageOf("x.unknown")]).toEqual([
    "makefile",
    "bash",
    undefined,
  ]);
});
