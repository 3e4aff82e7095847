import { expect, test } from "vitest";
import { EarlierLines } from "./earlier";

const numbered = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `line ${from + i}`);

/** All matches, block by block. */
function search(lines: EarlierLines, wanted: string, from = lines.first) {
  const found = [];
  for (let at = from; ; ) {
    const block = lines.searchBlock(at, wanted);
    if (!block) return found;
    found.push(...block.found);
    at = block.next;
  }
}

test("every match is found once, with its line and column", () => {
  const lines = new EarlierLines();
  lines.push(1, ["an Error", "", "none", "error error"]);
  lines.push(5, numbered(5, 20_001));
  lines.push(20_001, ["last error"]);
  expect(search(lines, "error")).toEqual([
    { number: 1, start: 3 },
    { number: 4, start: 0 },
    { number: 4, start: 6 },
    { number: 20_001, start: 5 },
  ]);
  expect(search(lines, "line 19999")).toEqual([{ number: 19_999, start: 0 }]);
});

test("a search goes on after a line", () => {
  const lines = new EarlierLines();
  lines.push(1, numbered(1, 101));
  expect(search(lines, "line 9", 95).map(({ number }) => number)).toEqual([95, 96, 97, 98, 99]);
  expect(lines.searchBlock(101, "line")).toBeUndefined();
  expect(new EarlierLines().searchBlock(1, "line")).toBeUndefined();
});

test("lines are returned across blocks", () => {
  const lines = new EarlierLines();
  lines.push(1, numbered(1, 12_001));
  expect(lines.slice(4_999, 5_003).map(({ text }) => text)).toEqual([
    "line 4999",
    "line 5000",
    "line 5001",
    "line 5002",
  ]);
  expect(lines.slice(11_999, 20_000).map(({ number }) => number)).toEqual([11_999, 12_000]);
  expect(lines.count).toBe(12_000);
});

test("of a very long log the oldest lines are not kept", () => {
  const lines = new EarlierLines(100_000);
  lines.push(1, numbered(1, 40_001));
  expect(lines.first).toBeGreaterThan(20_000);
  expect(lines.end).toBe(40_001);
  expect(search(lines, "line 1", 1)).toEqual([]);
});
