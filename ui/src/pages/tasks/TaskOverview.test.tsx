import { screen, within } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { aTask } from "../../test/bodies";
import { renderPage, stubServer } from "../../test/wrap";
import { TaskOverview } from "./TaskOverview";

afterEach(() => vi.unstubAllGlobals());

const rowsOf = (table: string) =>
  within(screen.getByRole("group", { name: table }))
    .getAllByRole("row")
    .slice(1)
    .map((row) => row.textContent);

test("the stored outputs replace those of the status, which leaves out long ones", async () => {
  const long = "x".repeat(2_000);
  const sent = stubServer(() => ({ body: { epoch: 2, outputs: { version: "1.2", notes: long } } }));
  renderPage(
    <TaskOverview task={aTask({ phase: "Completed", runEpoch: 2, result: { outputs: { version: "1.2" } } })} />,
  );
  expect(rowsOf("Outputs")).toEqual(["version1.2"]);
  expect(await screen.findByText(long)).toBeInTheDocument();
  expect(screen.getByRole("button", { name: "Copy notes" })).toBeInTheDocument();
  expect(sent.map(({ address }) => address)).toContain("/api/v1/namespaces/n/tasks/t/outputs?epoch=2");
});

test("a Task that runs asks for no outputs, and one that left none shows none", () => {
  const sent = stubServer(() => ({ body: { outputs: {} } }));
  renderPage(<TaskOverview task={aTask({ phase: "Running", runEpoch: 1 })} />);
  expect(sent.filter(({ address }) => address.includes("/outputs"))).toEqual([]);
  renderPage(<TaskOverview task={aTask({ phase: "Completed", runEpoch: 1, result: { summary: "Done." } })} />);
  expect(screen.getByText("Done.")).toBeInTheDocument();
  expect(screen.queryByText("Outputs")).not.toBeInTheDocument();
});

test("outputs appear after an event that has none", async () => {
  stubServer(({ address }) => ({ body: address.includes("/outputs") ? { epoch: 1, outputs: { answer: "42" } } : {} }));
  renderPage(<TaskOverview task={aTask({ phase: "Completed", runEpoch: 1, result: { summary: "Done." } })} />);
  expect(await screen.findByText("42")).toBeInTheDocument();
});

test("caches show what was found and whether they were saved", () => {
  stubServer(() => ({ body: {} }));
  const caches = [
    { name: "npm", hit: "Exact" as const, bytes: 2 << 20, seconds: 65 },
    { name: "go", hit: "Prefix" as const, bytes: 2048, seconds: 0, saved: true },
    { name: "build", hit: "Miss" as const, saved: true },
    { name: "push", saved: true },
  ];
  renderPage(<TaskOverview task={aTask({ caches })} />);
  expect(rowsOf("Caches")).toEqual([
    "npmHit: 2.0 MiB in 1m 5sNo",
    "goHit of a restore key: 2.0 KiB in 0sYes",
    "buildMissYes",
    "pushNot to be restoredYes",
  ]);
});

test("the published branch and its merge request are shown", () => {
  stubServer(() => ({ body: {} }));
  const url = "https://gitlab.example/a/b/-/merge_requests/12";
  renderPage(<TaskOverview task={aTask({ published: { branch: "agents/t", url } })} />);
  expect(screen.getByText("agents/t")).toBeInTheDocument();
  expect(screen.getByRole("link", { name: "Merge request !12" })).toHaveAttribute("href", url);
});

test("the answers to permission requests are listed with who gave them", async () => {
  const answer = {
    epoch: 2,
    request: "per_1",
    permission: "bash",
    patterns: ["git push *"],
    at: "2026-01-01T00:00:00Z",
  };
  const approvals = [
    { ...answer, reply: "reject", message: "push to a branch", by: "ada", via: "Page", accepted: true },
    { ...answer, epoch: 1, reply: "always", by: "ci", via: "CommandLine" },
  ];
  stubServer(({ address }) => ({ body: address.endsWith("/approvals") ? { recorded: true, approvals } : {} }));
  renderPage(<TaskOverview task={aTask({ phase: "Completed", runEpoch: 1, agentRef: { name: "dev" } })} />);
  await screen.findByText("Approvals");
  const rows = rowsOf("Approvals");
  expect(rows[0]).toMatch(/^bash git push \*Rejected: push to a branchadaPage.*2$/);
  expect(rows[1]).toMatch(/Allowed always \(the agent may not have received it\)ciCommand line.*1$/);
});

test("what the log of a run lacks is said beside its size", () => {
  stubServer(() => ({ body: {} }));
  renderPage(<TaskOverview task={aTask({ logs: { lines: 3, bytes: 2048, complete: false, gaps: 2 } })} />);
  expect(screen.getByText("3 lines, 2.0 KiB, the end is lost, lines are missing in 2 places")).toBeInTheDocument();
});
