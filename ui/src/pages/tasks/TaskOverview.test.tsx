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

test("a Task without outputs asks for none", () => {
  const sent = stubServer(() => ({ body: {} }));
  renderPage(<TaskOverview task={aTask({ phase: "Completed", runEpoch: 1, result: { summary: "Done." } })} />);
  expect(screen.getByText("Done.")).toBeInTheDocument();
  expect(screen.queryByText("Outputs")).not.toBeInTheDocument();
  expect(sent.filter(({ address }) => address.includes("/outputs"))).toEqual([]);
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
