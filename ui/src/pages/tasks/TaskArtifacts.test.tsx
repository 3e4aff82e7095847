import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { MAX_PREVIEW } from "../../api/results";
import type { Artifact, ArtifactFile } from "../../api/types";
import { aTask } from "../../test/bodies";
import { type Answer, renderPage, type Sent, stubServer } from "../../test/wrap";
import { TaskArtifacts } from "./TaskArtifacts";

beforeEach(() => {
  localStorage.clear();
  window.history.replaceState(null, "", "/");
});
afterEach(() => vi.unstubAllGlobals());

const task = aTask({ phase: "Completed", runEpoch: 2 });
const dist: Artifact = {
  epoch: 2,
  name: "dist",
  bytes: 2048,
  files: 4,
  digest: "ab12",
  storedAt: "2026-11-16T10:00:00Z",
};
const trace: Artifact = {
  ...dist,
  epoch: 1,
  name: "trace",
  expired: {
    at: "2026-11-16T11:00:00Z",
    cause: "Space",
    message: "expired at 2026-11-16T11:00:00Z: the artifacts of its namespace needed more space than allowed",
  },
};
const file = (path: string, part: Partial<ArtifactFile> = {}): ArtifactFile => ({
  name: path,
  path,
  kind: "file",
  size: 12,
  digest: `digest of ${path}`,
  ...part,
});
const FILES = [
  file("README.md"),
  file("app.bin"),
  file("assets/app.js"),
  file("assets/img/logo.png"),
  file("big.txt", { size: MAX_PREVIEW + 1 }),
  file("empty.txt", { size: 0 }),
  file("latest", { kind: "link", target: "assets/app.js", size: undefined, digest: undefined }),
];
const CONTENT: Record<string, { body: string; type: string }> = {
  "README.md": { body: "# Title\n\n<b>bold</b> ![logo](assets/img/logo.png)\n", type: "text/plain; charset=utf-8" },
  "app.bin": { body: "\u0000", type: "application/octet-stream" },
  "assets/app.js": { body: "let a;\nlet b;\n", type: "text/plain; charset=utf-8" },
  "assets/img/logo.png": { body: "png", type: "image/png" },
  "big.txt": { body: "x".repeat(MAX_PREVIEW), type: "text/plain; charset=utf-8" },
};

/** A server with two artifacts, one of which expired. */
function serve(answer: (call: Sent) => Answer | undefined = () => undefined): Sent[] {
  return stubServer((call) => {
    const special = answer(call);
    if (special) return special;
    const { pathname, searchParams } = new URL(call.address, "http://test");
    if (pathname.endsWith("/artifacts")) return { body: { artifacts: [dist, trace] } };
    if (pathname.endsWith("/files")) {
      const [prefix, after] = [searchParams.get("prefix") ?? "", searchParams.get("after") ?? ""];
      const found = FILES.filter(({ path }) => path.startsWith(prefix));
      const rest = found.filter(({ path }) => path > after);
      const files = rest.slice(0, Number(searchParams.get("limit") ?? 200));
      return {
        body: { files, total: found.length, next: files.length < rest.length ? files.at(-1)?.path : undefined },
      };
    }
    return CONTENT[searchParams.get("path") ?? ""] ?? { status: 404, body: { message: "no such file" } };
  });
}

const item = (name: RegExp) => screen.findByRole("treeitem", { name });

test("artifacts are listed with size and run, and an expired one says when and why", async () => {
  serve();
  renderPage(<TaskArtifacts task={task} />);
  const rows = within(await screen.findByRole("table")).getAllByRole("row");
  expect(rows[1]).toHaveTextContent(/dist2.0 KiB42/);
  expect(within(rows[1] as HTMLElement).getByRole("link", { name: "Download dist" })).toHaveAttribute(
    "href",
    "/api/v1/namespaces/n/tasks/t/artifacts/dist?epoch=2",
  );
  expect(rows[2]).toHaveTextContent(/Expired .*The artifacts of its namespace needed more space than allowed/);
  expect(screen.queryByRole("button", { name: "trace" })).not.toBeInTheDocument();
  expect(screen.queryByRole("link", { name: "Download trace" })).not.toBeInTheDocument();
});

test("the tree is browsed by the keyboard", async () => {
  serve();
  renderPage(<TaskArtifacts task={task} />);
  const tree = await screen.findByRole("tree", { name: "Files of dist" });
  expect(
    within(tree)
      .getAllByRole("treeitem")
      .map((row) => row.textContent),
  ).toEqual(["README.md12 B", "app.bin12 B", "assets", "big.txt256 KiB", "empty.txt0 B", "latest → assets/app.js"]);
  tree.focus();
  await userEvent.keyboard("{ArrowDown}{ArrowDown}");
  const active = () => document.getElementById(tree.getAttribute("aria-activedescendant") ?? "");
  expect(active()).toHaveTextContent("assets");
  expect(active()).toHaveAttribute("aria-expanded", "false");
  await userEvent.keyboard("{ArrowRight}");
  await item(/^app\.js/);
  expect(active()).toHaveAttribute("aria-expanded", "true");
  await userEvent.keyboard("{ArrowRight}{Enter}");
  expect(active()).toHaveTextContent("app.js");
  expect(active()).toHaveAttribute("aria-level", "2");
  expect(await screen.findByRole("heading", { name: "assets/app.js" })).toBeInTheDocument();
  await userEvent.keyboard("{ArrowLeft}");
  expect(active()).toHaveTextContent("assets");
  await userEvent.keyboard("{ArrowLeft}");
  expect(active()).toHaveAttribute("aria-expanded", "false");
  await userEvent.keyboard("{End}");
  expect(active()).toHaveTextContent("latest");
});

test("a text is shown with line numbers, and only its beginning is requested", async () => {
  const sent = serve();
  renderPage(<TaskArtifacts task={task} />, "/?artifact=dist&file=assets/app.js");
  const content = await screen.findByRole("group", { name: "Content of assets/app.js" });
  expect([...content.querySelectorAll("[aria-hidden]")].map((number) => number.textContent)).toEqual(["1", "2"]);
  const request = sent.find(({ address }) => address.includes("/content"));
  expect(request?.address).toContain("path=assets%2Fapp.js");
  expect(request?.headers.Range).toBe(`bytes=0-${MAX_PREVIEW - 1}`);
  // The directory of the file is open.
  expect(await item(/^app\.js/)).toHaveAttribute("aria-selected", "true");
  const wrap = screen.getByRole("button", { name: "Disable line wrap" });
  await userEvent.click(wrap);
  expect(content).not.toHaveClass("wrap");
  expect(screen.getByRole("link", { name: "Download assets/app.js" })).toHaveAttribute(
    "href",
    "/api/v1/namespaces/n/tasks/t/artifacts/dist/content?epoch=2&path=assets%2Fapp.js&download=true",
  );
});

test("a long text is cut, and says so", async () => {
  serve();
  renderPage(<TaskArtifacts task={task} />);
  await userEvent.click(await item(/big\.txt/));
  expect(await screen.findByText(/^The first 256 KiB of 256 KiB are shown/)).toBeInTheDocument();
});

test("Markdown is rendered without its HTML, with images of the artifact, and its source is shown on request", async () => {
  serve();
  renderPage(<TaskArtifacts task={task} />);
  await userEvent.click(await item(/README/));
  expect(await screen.findByRole("heading", { level: 3, name: "Title" })).toBeInTheDocument();
  expect(screen.getByText(/<b>bold<\/b>/)).toBeInTheDocument();
  expect(screen.getByAltText("logo")).toHaveAttribute("src", expect.stringContaining("path=assets%2Fimg%2Flogo.png"));
  await userEvent.click(screen.getByRole("button", { name: "Source" }));
  expect(screen.getByRole("group", { name: "Content of README.md" })).toHaveTextContent("# Title");
});

test("images are shown, other files are not", async () => {
  serve();
  renderPage(<TaskArtifacts task={task} />, "/?artifact=dist&file=assets/img/logo.png");
  expect(await screen.findByAltText("assets/img/logo.png")).toHaveAttribute(
    "src",
    expect.stringContaining("/content?"),
  );
  await userEvent.click(await item(/app\.bin/));
  expect(await screen.findByText("No preview")).toBeInTheDocument();
  await userEvent.click(await item(/empty\.txt/));
  expect(await screen.findByText("An empty file")).toBeInTheDocument();
  await userEvent.click(await item(/latest/));
  expect(await screen.findByText("It leads to assets/app.js.")).toBeInTheDocument();
});

test("files are found by the beginning of their path, page by page", async () => {
  const sent = serve(({ address }) => {
    if (!address.includes("prefix=assets")) return undefined;
    return address.includes("after=")
      ? { body: { files: [FILES[3]], total: 2 } }
      : { body: { files: [FILES[2]], total: 2, next: "assets/app.js" } };
  });
  renderPage(<TaskArtifacts task={task} />);
  await userEvent.type(await screen.findByRole("searchbox"), "assets");
  const found = await screen.findByRole("list", { name: "Found files" });
  expect(screen.getByText("2 entries")).toBeInTheDocument();
  expect(within(found).getAllByRole("button")).toHaveLength(1);
  await userEvent.click(screen.getByRole("button", { name: "Show more" }));
  await waitFor(() => expect(within(found).getAllByRole("button")).toHaveLength(2));
  expect(screen.queryByRole("button", { name: "Show more" })).not.toBeInTheDocument();
  expect(sent.filter(({ address }) => address.includes("prefix=assets"))).toHaveLength(2);
  await userEvent.click(within(found).getByRole("button", { name: /app\.js/ }));
  expect(await screen.findByRole("heading", { name: "assets/app.js" })).toBeInTheDocument();
});

test("the only file of an artifact is shown at once", async () => {
  serve(({ address }) => {
    if (address.endsWith("/artifacts")) return { body: { artifacts: [{ ...dist, files: 1 }] } };
    return address.includes("/files") ? { body: { files: [FILES[0]], total: 1 } } : undefined;
  });
  renderPage(<TaskArtifacts task={task} />);
  expect(await screen.findByRole("heading", { level: 3, name: "Title" })).toBeInTheDocument();
});

test("the artifacts of an earlier run are shown on request", async () => {
  const sent = serve();
  renderPage(<TaskArtifacts task={task} />);
  await userEvent.selectOptions(await screen.findByRole("combobox", { name: "Run" }), "Run 1");
  await waitFor(() => expect(sent.some(({ address }) => address.endsWith("/artifacts?epoch=1"))).toBe(true));
});

test("a Task without artifacts, a server without a store and an error say so", async () => {
  serve(() => ({ body: { artifacts: [] } }));
  const none = renderPage(<TaskArtifacts task={aTask({ phase: "Completed", runEpoch: 1 })} />);
  expect(await screen.findByText(/The Task left no artifact/)).toBeInTheDocument();
  none.unmount();
  const running = renderPage(<TaskArtifacts task={aTask({ runEpoch: 1 })} />);
  expect(await screen.findByText(/Artifacts appear when the run has ended/)).toBeInTheDocument();
  running.unmount();
  const waiting = renderPage(<TaskArtifacts task={aTask({ phase: "Queued" })} />);
  expect(screen.getByText("The Task has not run yet.")).toBeInTheDocument();
  waiting.unmount();
  serve(() => ({ status: 404, body: { error: "NotFound", message: "this server has no store", code: 404 } }));
  const without = renderPage(<TaskArtifacts task={task} />);
  expect(await screen.findByText("This server has no store")).toBeInTheDocument();
  without.unmount();
  serve(() => ({ status: 500, body: { error: "Internal", message: "the store cannot be read", code: 500 } }));
  renderPage(<TaskArtifacts task={task} />);
  expect(await screen.findByText("the store cannot be read")).toBeInTheDocument();
  expect(screen.getByRole("button", { name: "Try again" })).toBeInTheDocument();
});

test("a directory that cannot be loaded is tried again", async () => {
  let broken = true;
  serve(({ address }) =>
    broken && address.includes("prefix=assets%2F") ? { status: 500, body: { message: "broken" } } : undefined,
  );
  renderPage(<TaskArtifacts task={task} />);
  await userEvent.click(await item(/^assets/));
  const failed = await item(/Could not be loaded/);
  broken = false;
  await userEvent.click(failed);
  // The first entry gets the place of the row.
  const loaded = await item(/^app\.js/);
  expect(screen.getByRole("tree")).toHaveAttribute("aria-activedescendant", loaded.id);
});
