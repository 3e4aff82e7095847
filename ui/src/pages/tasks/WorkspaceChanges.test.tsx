import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ChangedFile, TaskChanges } from "../../api/types";
import { Toasts } from "../../components/Toasts";
import { aTask } from "../../test/bodies";
import { renderPage, stubServer } from "../../test/wrap";
import { WorkspaceChanges } from "./WorkspaceChanges";

beforeEach(() => localStorage.clear());
afterEach(() => vi.unstubAllGlobals());

const task = aTask({ phase: "Completed", runEpoch: 3 });
const file = (path: string, part: Partial<ChangedFile> = {}): ChangedFile => ({
  path,
  status: "modified",
  insertions: 1,
  deletions: 1,
  binary: false,
  cut: false,
  patch: `diff --git a/${path} b/${path}\n@@ -1,2 +1,2 @@\n same\n-old ${path}\n+new ${path}\n`,
  ...part,
});
const changesOf = (...files: ChangedFile[]): TaskChanges => ({
  compared: true,
  files,
  fileCount: files.length,
  insertions: files.length,
  deletions: files.length,
  commits: [],
  commitCount: 0,
  notes: [],
});
const show = (changes: TaskChanges, part = {}) =>
  renderPage(
    <>
      <WorkspaceChanges task={{ ...task, ...part }} changes={changes} />
      <Toasts />
    </>,
  );
const diff = (path: string) => screen.getByRole("group", { name: `Changes of ${path}` });
const toggle = (path: string) => screen.getByRole("button", { name: path });

test("generated and deleted files are collapsed until a person opens them", async () => {
  show(changesOf(file("a.ts"), file("package-lock.json"), file("b.ts", { status: "deleted" })));
  expect(diff("a.ts")).toBeInTheDocument();
  expect(toggle("package-lock.json")).toHaveAttribute("aria-expanded", "false");
  await userEvent.click(toggle("package-lock.json"));
  expect(diff("package-lock.json")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Expand all files" }));
  expect(diff("b.ts")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Collapse all files" }));
  expect(screen.queryByRole("group", { name: /^Changes of/ })).not.toBeInTheDocument();
});

test("choosing a file of the list opens it and moves the focus to it", async () => {
  show(changesOf(file("a.ts"), file("x/go.sum", { insertions: 7 })));
  await userEvent.click(screen.getByRole("button", { name: /go\.sum.*modified.*\+7/ }));
  expect(diff("x/go.sum")).toBeInTheDocument();
  expect(document.activeElement).toBe(screen.getByRole("region", { name: "x/go.sum" }));
});

test("the files of the list are filtered", async () => {
  show(changesOf(...Array.from({ length: 20 }, (_, i) => file(`src/file-${i}.ts`))));
  const list = () => screen.getByRole("list", { name: "Changed files" }).querySelectorAll("li").length;
  expect(list()).toBe(20);
  await userEvent.type(screen.getByRole("searchbox", { name: "Filter the files" }), "file-1");
  expect(list()).toBe(11);
});

test("layout and line wrap are remembered", async () => {
  const { unmount } = show(changesOf(file("a.ts")));
  expect(diff("a.ts").querySelector(".pair")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Disable line wrap" }));
  expect(diff("a.ts").querySelector(".wrap")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Side by side" }));
  expect(diff("a.ts").querySelectorAll(".pair")).toHaveLength(2);
  expect(screen.getByRole("button", { name: "Wrap lines" })).toBeDisabled();
  unmount();
  show(changesOf(file("a.ts")));
  expect(diff("a.ts").querySelectorAll(".pair")).toHaveLength(2);
  expect(screen.getByRole("button", { name: "Side by side" })).toHaveAttribute("aria-pressed", "true");
});

test("added and removed lines are told apart without colours", () => {
  show(changesOf(file("a.ts")));
  expect(diff("a.ts")).toHaveTextContent("removed: old a.ts");
  expect(diff("a.ts")).toHaveTextContent("added: new a.ts");
});

test("binary, renamed, shortened and mode-only files say what they are", () => {
  show(
    changesOf(
      file("logo.png", { binary: true, status: "added", patch: "" }),
      file("new.ts", { status: "renamed", oldPath: "old.ts", patch: "diff --git a/old.ts b/new.ts\n" }),
      file("long.ts", { cut: true, patch: "", insertions: 5000, deletions: 0 }),
      file("run.sh", { patch: "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n" }),
      file("empty.txt", { status: "added", patch: "diff --git a/empty.txt b/empty.txt\nnew file mode 100644\n" }),
    ),
  );
  expect(screen.getByText("Binary or large file: no diff.")).toBeInTheDocument();
  expect(screen.getByRole("heading", { name: "old.ts → new.ts" })).toBeInTheDocument();
  expect(screen.getByText("Renamed without changes.")).toBeInTheDocument();
  expect(screen.getByText("Mode 100644 → 100755")).toBeInTheDocument();
  expect(screen.getByText("An empty file.")).toBeInTheDocument();
  // Long files are collapsed.
  expect(toggle("long.ts")).toHaveAttribute("aria-expanded", "false");
});

test("files away from the visible area are not rendered", () => {
  let nearest: (entries: { isIntersecting: boolean }[]) => void = () => {};
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      constructor(callback: typeof nearest) {
        nearest = callback;
      }
      observe() {}
      disconnect() {}
    },
  );
  show(changesOf(...Array.from({ length: 300 }, (_, i) => file(`src/file-${i}.ts`))));
  expect(screen.queryByRole("group", { name: /^Changes of/ })).not.toBeInTheDocument();
  expect(screen.getAllByRole("region").length).toBeGreaterThan(299);
  nearest([{ isIntersecting: false }]);
  expect(screen.queryByRole("group", { name: /^Changes of/ })).not.toBeInTheDocument();
});

test("branch, commit and pull request are shown, and a script is no link", () => {
  const published = { branch: "agents/t", commit: "0123456789abcdef", url: "https://git.example/a/b/pull/7" };
  const { unmount } = show(changesOf(file("a.ts")), { published });
  expect(screen.getByText("agents/t")).toBeInTheDocument();
  expect(screen.getByText("0123456789")).toBeInTheDocument();
  expect(screen.getByRole("link", { name: "Pull request #7" })).toHaveAttribute("href", published.url);
  unmount();
  show(changesOf(file("a.ts")), { published: { branch: "b", url: "javascript:alert(1)" } });
  expect(screen.queryByRole("link")).not.toBeInTheDocument();
});

/** jsdom has no `Blob.text`. */
const textOf = (blob: Blob | undefined) =>
  new Promise((done) => {
    if (!blob || "text" in blob) return done(blob?.text());
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsText(blob);
  });

/** Records what is saved as a file. */
function saved() {
  const files: { name: string; blob: Blob | undefined }[] = [];
  let last: Blob | undefined;
  URL.createObjectURL = (blob) => {
    last = blob as Blob;
    return "blob:x";
  };
  URL.revokeObjectURL = () => {};
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
    files.push({ name: this.download, blob: last });
  });
  return files;
}
const download = () => userEvent.click(screen.getByRole("button", { name: "Download patch" }));

test("the stored patch is downloaded", async () => {
  const files = saved();
  const sent = stubServer(() => ({ body: "the patch", type: "text/x-diff" }));
  show(changesOf(file("a.ts", { cut: true })));
  await download();
  await waitFor(() => expect(files).toHaveLength(1));
  expect(sent[0]?.address).toBe("/api/v1/namespaces/n/tasks/t/changes/patch?epoch=3");
  expect([files[0]?.name, await textOf(files[0]?.blob)]).toEqual(["t-3.patch", "the patch"]);
});

test("without a stored patch, the shown changes are downloaded if they are whole", async () => {
  const files = saved();
  stubServer(() => ({
    status: 404,
    body: { error: "NotFound", message: "no patch is stored for this run", code: 404 },
  }));
  const { unmount } = show(changesOf(file("a.ts"), file("b.ts")));
  await download();
  await waitFor(() => expect(files).toHaveLength(1));
  expect(await textOf(files[0]?.blob)).toBe(`${file("a.ts").patch}${file("b.ts").patch}`);
  unmount();
  show(changesOf(file("a.ts"), file("logo.png", { binary: true, patch: "" })));
  await download();
  expect(await screen.findByText("no patch is stored for this run")).toBeInTheDocument();
  expect(files).toHaveLength(1);
});
