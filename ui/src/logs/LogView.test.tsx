import { act, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { EarlierLines } from "./earlier";
import { LogView, type LogViewProps } from "./LogView";
import { LogBuffer, MAX_LINES } from "./lines";
import type { LogState } from "./useLogStream";
import type { StoredMatches } from "./useStoredMatches";

beforeEach(() => {
  // jsdom has no sizes: without one, no line is visible.
  vi.spyOn(Element.prototype, "clientHeight", "get").mockReturnValue(480);
  vi.spyOn(Element.prototype, "clientWidth", "get").mockReturnValue(800);
  vi.spyOn(HTMLElement.prototype, "offsetHeight", "get").mockImplementation(function (this: HTMLElement) {
    return this.role === "log" ? 480 : 20;
  });
});

function logOf(text: string, part: Partial<LogState> = {}): LogState {
  const buffer = new LogBuffer();
  if (text !== "") buffer.append(text);
  const { lines, dropped, earlier } = buffer;
  return { lines, dropped, earlier, stream: "open", complete: false, cut: false, ...part };
}

function show(log: LogState, more: Partial<LogViewProps> = {}) {
  return render(
    <LogView
      log={log}
      containers={["agent", "context-init"]}
      container="agent"
      onContainer={() => {}}
      downloadUrl="/log"
      fileName="t.log"
      {...more}
    />,
  );
}

test("colours are shown and escape sequences are not", () => {
  show(logOf("\u001b[31mbad\u001b[0m news\n"));
  expect(screen.getByText("bad")).toHaveStyle({ color: "var(--ansi-red)" });
  expect(screen.getByRole("log")).not.toHaveTextContent("[31m");
});

test("a search marks and counts matches, and Enter moves to the next", async () => {
  show(logOf("an error\nfine\nanother Error\n"));
  const input = screen.getByRole("searchbox", { name: "Search in the log" });
  await userEvent.type(input, "error");
  expect(screen.getByText("1 of 2")).toBeInTheDocument();
  expect(document.querySelectorAll("mark")).toHaveLength(2);
  await userEvent.type(input, "{Enter}");
  expect(screen.getByText("2 of 2")).toBeInTheDocument();
  await userEvent.type(input, "{Enter}");
  expect(screen.getByText("1 of 2")).toBeInTheDocument();
});

test("n and N move between matches outside of the search field", async () => {
  show(logOf("an error\nfine\nanother Error\n"));
  await userEvent.type(screen.getByRole("searchbox"), "error");
  expect(screen.getByText("1 of 2")).toBeInTheDocument();
  act(() => screen.getByRole("log").focus());
  await userEvent.keyboard("n");
  expect(screen.getByText("2 of 2")).toBeInTheDocument();
  await userEvent.keyboard("N");
  expect(screen.getByText("1 of 2")).toBeInTheDocument();
});

function storedMatches(found: Partial<NonNullable<StoredMatches["found"]>>): StoredMatches {
  return { text: "error", found: { runs: [], ...found }, error: null };
}

test("matches in other runs are counted, and one click shows that run", async () => {
  const onRun = vi.fn();
  const onSearch = vi.fn();
  const of = (epoch: number, matchCount: number) => ({ epoch, matches: [], matchCount, lineCount: 9 });
  const stored = storedMatches({
    runs: [of(3, 1), of(2, 0), of(1, 14)],
    incomplete: "15 lines match, of which the first 10 are listed",
  });
  show(logOf("an error\n"), { run: 3, runs: 3, onRun, onSearch, stored });
  expect(screen.getByRole("combobox", { name: "Run" })).toHaveDisplayValue("Run 3");
  await userEvent.type(screen.getByRole("searchbox"), "error");
  expect(onSearch).toHaveBeenLastCalledWith("error");
  expect(screen.getByText(/15 lines match, of which the first 10 are listed/)).toBeInTheDocument();
  expect(screen.queryByRole("button", { name: /^Run [23]/ })).not.toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Run 1: 14 lines" }));
  expect(onRun).toHaveBeenCalledWith(1);
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "Run" }), "Run 2");
  expect(onRun).toHaveBeenLastCalledWith(2);
});

test("lines that the page does not keep are found by the server", async () => {
  const log = longLog();
  const earlier = new EarlierLines();
  // The page dropped the first 9,000 lines.
  earlier.push(
    9_001,
    Array.from({ length: 1_000 }, () => "hay"),
  );
  const matches = [
    { line: 5, time: "2026-01-01T00:00:00Z", text: "the first needle of two" },
    { line: 7_000, text: "the second needle" },
    { line: 20_005, text: "needle 20004" },
  ];
  const stored = storedMatches({ runs: [{ epoch: 1, matches, matchCount: 3, lineCount: 60_000 }] });
  show({ ...log, earlier }, { stored });
  await userEvent.type(screen.getByRole("searchbox"), "needle");
  expect(await screen.findByText("3 of 4")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Previous match" }));
  expect(screen.getByText("2 of 4")).toBeInTheDocument();
  expect(screen.getByText(/^2 matching lines before line 9,001/)).toBeInTheDocument();
  expect(screen.getByRole("log")).toHaveTextContent("the second needle");
  await userEvent.click(screen.getByRole("button", { name: "Later" }));
  expect(screen.getByText("Lines 9,001 to 10,000")).toBeInTheDocument();
});

test("line wrap can be disabled", async () => {
  show(logOf("a long line\n"));
  const frame = () => screen.getByText("a long line").closest(".lines");
  expect(frame()).toHaveClass("wrapped");
  await userEvent.click(screen.getByRole("button", { name: "Disable line wrap" }));
  expect(frame()).not.toHaveClass("wrapped");
});

test("a search without matches is reported", async () => {
  show(logOf("fine\n"));
  await userEvent.type(screen.getByRole("searchbox"), "error");
  expect(screen.getByText("none")).toBeInTheDocument();
  expect(screen.getByRole("button", { name: "Next match" })).toBeDisabled();
});

/** A log that is longer than the page shows: 20 % of its lines are earlier ones. */
function longLog(): LogState {
  const lines = Array.from({ length: MAX_LINES * 1.2 }, (_, i) => (i % 20_000 === 4 ? `needle ${i}` : "hay"));
  return logOf(lines.join("\n"));
}

test("lines that are not shown any more are searched too, and shown with a match", async () => {
  show(longLog());
  await userEvent.type(screen.getByRole("searchbox"), "needle");
  // Matches at lines 5, 20,005 and 40,005; the first 10,000 lines are not shown.
  expect(await screen.findByText("2 of 3")).toBeInTheDocument();
  expect(screen.queryByText(/^Lines /)).not.toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Previous match" }));
  expect(screen.getByText("1 of 3")).toBeInTheDocument();
  expect(screen.getByText("Lines 1 to 2,000")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Next match" }));
  expect(screen.getByText("2 of 3")).toBeInTheDocument();
  expect(screen.queryByText(/^Lines /)).not.toBeInTheDocument();
});

test("earlier lines can be read page by page", async () => {
  show(longLog());
  expect(screen.getByText("60,000 lines")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Show earlier lines" }));
  expect(screen.getByText("Lines 8,001 to 10,000")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Earlier" }));
  expect(screen.getByText("Lines 6,001 to 8,000")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "End of the log" }));
  expect(screen.queryByText(/^Lines /)).not.toBeInTheDocument();
  expect(screen.getByRole("button", { name: "Following the log" })).toBeInTheDocument();
});

test("a search of earlier lines can be cancelled", async () => {
  const log = longLog();
  // A search that does not end by itself.
  vi.spyOn(log.earlier, "searchBlock").mockReturnValue({ found: [], next: 2 });
  show(log);
  await userEvent.type(screen.getByRole("searchbox"), "needle");
  expect(screen.getByText(/^Searching the earlier lines/)).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(screen.queryByText(/^Searching/)).not.toBeInTheDocument();
  expect(screen.getByText("1 of 2+")).toBeInTheDocument();
});

test("an empty log shows the reason", () => {
  show(logOf("", { info: "Agent 'dev' is busy" }));
  expect(screen.getByText("Agent 'dev' is busy")).toBeInTheDocument();
});

test("an interrupted log shows that it reconnects", () => {
  show(logOf("line\n", { stream: "reconnecting" }));
  expect(screen.getByText("Reconnecting to the log")).toBeInTheDocument();
});

test("the download link contains the whole log", () => {
  show(logOf("line\n"));
  expect(screen.getByRole("link", { name: "Download the log" })).toHaveAttribute("href", "/log");
});

test("a finished log shows whether it is complete", () => {
  const { unmount } = show(logOf("line\n", { complete: true }));
  expect(screen.getByText("The log is complete")).toBeInTheDocument();
  unmount();
  const cut = show(logOf("line\n", { complete: true, cut: true }));
  expect(screen.getByText(/^The log is incomplete/)).toBeInTheDocument();
  cut.unmount();
  const gaps = show(logOf("line\n", { complete: true, cut: true, lacks: "lines are missing at 2 places" }));
  expect(screen.getByText("The log is incomplete: lines are missing at 2 places")).toBeInTheDocument();
  gaps.unmount();
  show(logOf("line\n", { complete: true, lacks: "500 bytes in the middle of this log are left out" }));
  expect(screen.getByText("500 bytes in the middle of this log are left out")).toBeInTheDocument();
});
