import { expect, test } from "vitest";
import { findAll, LogBuffer, MAX_LINES, markSpans } from "./lines";

const ESC = "\u001b";

test("a chunk is split into numbered lines", () => {
  const buffer = new LogBuffer();
  buffer.append("one\ntwo\n");
  buffer.append("three\n");
  expect(buffer.lines.map((line) => [line.number, line.text])).toEqual([
    [1, "one"],
    [2, "two"],
    [3, "three"],
  ]);
});

test("empty lines are kept", () => {
  const buffer = new LogBuffer();
  buffer.append("\n");
  expect(buffer.lines).toHaveLength(1);
});

test("a colour continues in the next chunk", () => {
  const buffer = new LogBuffer();
  buffer.append(`${ESC}[31mfirst\n`);
  buffer.append("second\n");
  expect(buffer.lines[1]?.spans[0]?.color).toBe("red");
});

test("the oldest lines are not shown, but kept for the search", () => {
  const buffer = new LogBuffer();
  buffer.append("x\n".repeat(MAX_LINES * 1.2));
  expect(buffer.lines.length).toBeLessThanOrEqual(MAX_LINES);
  expect(buffer.lines.length + buffer.dropped).toBe(MAX_LINES * 1.2);
  expect(buffer.lines[0]?.number).toBe(buffer.dropped + 1);
  expect([buffer.earlier.first, buffer.earlier.end]).toEqual([1, buffer.dropped + 1]);
});

test("escape sequences are not searched", () => {
  const buffer = new LogBuffer();
  buffer.append(`an ${ESC}[31mErr${ESC}[0mor and an error\n`);
  expect(findAll(buffer.lines, "error")).toEqual([
    { number: 1, start: 3 },
    { number: 1, start: 16 },
  ]);
});

test("a match across two colours is marked in both", () => {
  const spans = [{ text: "an Err", color: "red" }, { text: "or!" }];
  expect(markSpans(spans, [3], 5, 3)).toEqual([
    { text: "an ", color: "red" },
    { text: "Err", color: "red", mark: "current" },
    { text: "or", mark: "current" },
    { text: "!" },
  ]);
});
