import { expect, test } from "vitest";
import { changedWords, readPatch, sideBySide, wordChanges } from "./patch";

const PATCH = `diff --git a/poem.txt b/poem.txt
old mode 100644
new mode 100755
index 1..2
--- a/poem.txt
+++ b/poem.txt
@@ -1,3 +1,4 @@ fn poem
 roses
--- x
+++ y
+more
 end
@@ -9 +10 @@
-last
\\ No newline at end of file
+last one
`;

test("lines have the numbers before and after the change", () => {
  const { hunks } = readPatch(PATCH);
  expect(hunks.map((hunk) => hunk.heading)).toEqual(["@@ -1,3 +1,4 @@ fn poem", "@@ -9 +10 @@"]);
  expect(hunks[0]?.lines.map(({ kind, text, before, after }) => [kind, text, before, after])).toEqual([
    ["same", "roses", 1, 1],
    ["removed", "-- x", 2, undefined],
    ["added", "++ y", undefined, 2],
    ["added", "more", undefined, 3],
    ["same", "end", 3, 4],
  ]);
});

test("a missing newline at the end belongs to its line, and is not a line", () => {
  const last = readPatch(PATCH).hunks[1]?.lines;
  expect(last?.map(({ text, unended }) => [text, unended])).toEqual([
    ["last", true],
    ["last one", undefined],
  ]);
});

test("a changed mode is found, also without changed lines", () => {
  expect(readPatch(PATCH).modes).toBe("100644 → 100755");
  expect(readPatch("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n")).toEqual({
    hunks: [],
    modes: "100644 → 100755",
  });
  expect(readPatch("")).toEqual({ hunks: [] });
});

test("removed lines stand beside the added lines that replace them", () => {
  const lines = readPatch(PATCH).hunks[0]?.lines ?? [];
  expect(sideBySide(lines).map(({ left, right }) => [left?.text, right?.text])).toEqual([
    ["roses", "roses"],
    ["-- x", "++ y"],
    [undefined, "more"],
    ["end", "end"],
  ]);
});

test("the words that differ are found in similar lines only", () => {
  expect(wordChanges("await sleep(5000);", "await sleep(50);")).toEqual({
    before: [{ from: 12, to: 16 }],
    after: [{ from: 12, to: 14 }],
  });
  expect(wordChanges("one two three", "something else entirely")).toBeUndefined();
  expect(wordChanges("", "")).toBeUndefined();
  const lines = readPatch("@@ -1 +1 @@\n-a line of text\n+a line of code\n").hunks[0]?.lines ?? [];
  expect(lines.map((line) => changedWords(lines).get(line))).toEqual([[{ from: 10, to: 14 }], [{ from: 10, to: 14 }]]);
});
