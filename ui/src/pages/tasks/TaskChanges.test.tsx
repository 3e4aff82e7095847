import { screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import type { TaskChanges as Changes } from "../../api/types";
import { aTask } from "../../test/bodies";
import { renderPage, stubServer } from "../../test/wrap";
import { TaskChanges } from "./TaskChanges";

afterEach(() => vi.unstubAllGlobals());

const task = aTask({ phase: "Completed", runEpoch: 1, session: { id: "ses_1" } });
const changes: Changes = {
  compared: true,
  fileCount: 2,
  insertions: 2,
  deletions: 1,
  commitCount: 1,
  commits: [{ id: "0123456789abcdef", subject: "Play the violin" }],
  notes: ["Other Tasks ran on this Agent at the same time."],
  files: [
    {
      path: "poem.txt",
      status: "modified",
      insertions: 1,
      deletions: 1,
      binary: false,
      cut: false,
      patch: "diff --git a/poem.txt b/poem.txt\n@@ -1 +1 @@\n-violets\n+violins\n",
    },
    { path: "logo.png", status: "added", insertions: 0, deletions: 0, binary: true, cut: false, patch: "" },
  ],
};
/** What the tools reported: one file only. */
const messages = [
  {
    info: { id: "m", role: "assistant" },
    parts: [
      {
        id: "p",
        type: "tool",
        tool: "write",
        state: { status: "completed", input: { filePath: "new.txt", content: "1\n" } },
      },
    ],
  },
];

function serve(found: Changes | undefined) {
  stubServer(({ address }) =>
    address.includes("/changes")
      ? found
        ? { body: found }
        : { status: 404, body: { error: "NotFound", message: "no changes are recorded for this run", code: 404 } }
      : { body: messages },
  );
}

test("the difference of the workspace is shown, with commits and notes", async () => {
  serve(changes);
  renderPage(<TaskChanges task={task} />);
  expect(await screen.findByText("violins")).toBeInTheDocument();
  expect(screen.getByText(/2 files changed/)).toHaveTextContent("2 files changed, +2 −1, 1 commit");
  expect(screen.getByText("Play the violin")).toBeInTheDocument();
  expect(screen.getByText(/Other Tasks ran/)).toBeInTheDocument();
  expect(screen.getByText(/Binary or large file/)).toBeInTheDocument();
  expect(screen.queryByText("new.txt")).not.toBeInTheDocument();
});

test("an older run shows what the tools reported, and says what is missing", async () => {
  serve(undefined);
  renderPage(<TaskChanges task={task} />);
  expect(await screen.findByText("new.txt")).toBeInTheDocument();
  expect(screen.getByText("Files changed by shell commands are not listed.")).toBeInTheDocument();
});

test("a workspace that could not be compared says why", async () => {
  const notes = ["The image has no git: files changed by shell commands are not listed."];
  serve({ ...changes, compared: false, files: [], fileCount: 0, commits: [], commitCount: 0, notes });
  renderPage(<TaskChanges task={task} />);
  expect(await screen.findByText("new.txt")).toBeInTheDocument();
  expect(screen.getByText(/The image has no git/)).toBeInTheDocument();
});
