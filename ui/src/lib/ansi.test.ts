import { expect, test } from "vitest";
import { parseAnsi } from "./ansi";

const ESC = "\u001b";

/** The visible text of a line. */
function readable(line: string): string {
  return parseAnsi(line)
    .spans.map((span) => span.text)
    .join("");
}

test("colours and weights are parsed", () => {
  const { spans } = parseAnsi(`${ESC}[1;31mbad${ESC}[0m and ${ESC}[92mgood${ESC}[39m plain`);
  expect(spans).toEqual([
    { text: "bad", bold: true, color: "red" },
    { text: " and " },
    { text: "good", color: "green" },
    { text: " plain" },
  ]);
});

test("256 and true colours become hex", () => {
  expect(parseAnsi(`${ESC}[38;5;208mx`).spans[0]?.color).toBe("#ff8700");
  expect(parseAnsi(`${ESC}[48;2;1;2;3mx`).spans[0]?.background).toBe("#010203");
});

test("a colour continues on the next line", () => {
  const first = parseAnsi(`${ESC}[33mwarning`);
  expect(parseAnsi("still", first.end).spans).toEqual([{ text: "still", color: "yellow" }]);
});

test("a carriage return keeps only the last state of a progress bar", () => {
  expect(readable("10%\r50%\r100%")).toBe("100%");
});

test("links, cursor movements and bells are removed", () => {
  expect(readable(`${ESC}]8;;http://x${ESC}\\text${ESC}]8;;${ESC}\\${ESC}[2K${ESC}[1Aend\u0007`)).toBe("textend");
});
