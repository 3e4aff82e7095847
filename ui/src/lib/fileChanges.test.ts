import { expect, test } from "vitest";
import type { SessionMessage, SessionPart } from "../api/types";
import { changedFiles, changesOfCall } from "./fileChanges";

type State = NonNullable<SessionPart["state"]>;

function toolCall(tool: string, state: State): SessionPart {
  return { type: "tool", tool, state: { status: "completed", ...state } };
}

const edit = toolCall("edit", {
  input: { filePath: "/w/a.ts" },
  metadata: { diff: "--- a.ts\n+++ a.ts\n@@ -1 +1 @@\n-old\n+new\n" },
});
const write = toolCall("write", { input: { filePath: "/w/b.md", content: "one\ntwo\n" } });

test("a new file consists of added lines", () => {
  expect(changesOfCall(write)).toEqual([
    {
      path: "/w/b.md",
      lines: [
        { kind: "added", text: "one" },
        { kind: "added", text: "two" },
      ],
    },
  ]);
});

test("a patch is split by file", () => {
  const patch = toolCall("apply_patch", {
    metadata: {
      files: [
        { filePath: "/w/a.ts", relativePath: "a.ts", diff: "+x\n" },
        { filePath: "/w/b.ts", diff: "-y\n" },
      ],
    },
  });
  expect(changesOfCall(patch).map((change) => change.path)).toEqual(["a.ts", "/w/b.ts"]);
});

test("failed, unfinished and read-only tool calls change nothing", () => {
  expect(changesOfCall({ ...write, state: { ...write.state, status: "error" } })).toEqual([]);
  expect(changesOfCall({ ...write, state: { ...write.state, status: "running" } })).toEqual([]);
  expect(changesOfCall(toolCall("read", { input: { filePath: "/w/a.ts" }, output: "x" }))).toEqual([]);
  expect(changesOfCall({ type: "text", text: "hello" })).toEqual([]);
});

test("changes are grouped by file with totals", () => {
  const message = (id: string, ...parts: SessionPart[]): SessionMessage => ({ info: { id, role: "assistant" }, parts });
  const files = changedFiles([message("1", edit), message("2", write, edit)]);
  expect(files.map(({ path, added, removed, changes }) => [path, added, removed, changes.length])).toEqual([
    ["/w/a.ts", 2, 2, 2],
    ["/w/b.md", 2, 0, 1],
  ]);
});
