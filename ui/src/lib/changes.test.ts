import { expect, test } from "vitest";
import { changesBetween, readUnified } from "./changes";

test("long unchanged ranges are folded", () => {
  const before = Array.from({ length: 20 }, (_, i) => `line ${i}`).join("\n");
  const after = before.replace("line 10", "line ten");
  const lines = changesBetween(before, after);
  expect(lines[0]).toEqual({ kind: "skipped", text: "7 unchanged lines" });
  expect(lines).toContainEqual({ kind: "removed", text: "line 10" });
  expect(lines).toContainEqual({ kind: "added", text: "line ten" });
  expect(lines.at(-1)).toEqual({ kind: "skipped", text: "6 unchanged lines" });
});

test("equal texts have no changes", () => {
  expect(changesBetween("a\nb", "a\nb")).toEqual([{ kind: "skipped", text: "2 unchanged lines" }]);
});

test("a unified diff is parsed without its headers", () => {
  expect(readUnified("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n")).toEqual([
    { kind: "skipped", text: "@@ -1,2 +1,2 @@" },
    { kind: "removed", text: "old" },
    { kind: "added", text: "new" },
    { kind: "same", text: "same" },
  ]);
});

test("the headers of git are left out, and content that looks like one is kept", () => {
  const patch =
    "diff --git a/q.sql b/q.sql\nnew file mode 100644\nindex 1..2\n--- a/q.sql\n+++ b/q.sql\n" +
    "@@ -1 +1 @@\n--- old\n\\ No newline at end of file\n+++ new\n";
  expect(readUnified(patch)).toEqual([
    { kind: "skipped", text: "@@ -1 +1 @@" },
    { kind: "removed", text: "-- old" },
    { kind: "added", text: "++ new" },
  ]);
});
