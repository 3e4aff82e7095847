import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import { anExplanation } from "../../test/bodies";
import { renderPage } from "../../test/wrap";
import { ExplainPanel } from "./ExplainPanel";

const waiting = anExplanation({
  phase: "Queued",
  chain: [
    { level: "wait", reason: "Queued", message: "It waits for a slot" },
    {
      level: "wait",
      reason: "AgentAtCapacity",
      message: "Agent 'dev' is busy",
      object: { kind: "Agent", namespace: "shop", name: "dev" },
    },
  ],
  queue: {
    target: { kind: "Agent", name: "dev" },
    position: 3,
    waiting: 7,
    running: 1,
    maxConcurrentTasks: 1,
    ahead: [],
  },
  next: ["Raise maxConcurrentTasks."],
});

test("the chain leads to the root cause", () => {
  renderPage(<ExplainPanel explain={waiting} namespace="shop" />);
  const steps = within(screen.getAllByRole("list")[0] as HTMLElement).getAllByRole("listitem");
  expect(steps).toHaveLength(2);
  expect(steps[1]).toHaveTextContent("because");
  expect(within(steps[1] as HTMLElement).getByRole("link", { name: "Agent dev" })).toHaveAttribute(
    "href",
    "/agents/shop/dev",
  );
});

test("a repeated cause is shown once", () => {
  const cause = { level: "error" as const, reason: "DeploymentNotReady", message: "no Pod is ready" };
  renderPage(<ExplainPanel explain={anExplanation({ chain: [cause, cause] })} namespace="shop" />);
  expect(screen.getAllByText("No Pod is ready")).toHaveLength(1);
});

test("the queue position and suggested actions are shown", () => {
  renderPage(<ExplainPanel explain={waiting} namespace="shop" />);
  expect(screen.getByText("3 of 7")).toBeInTheDocument();
  expect(screen.getByRole("meter", { name: "Slots in use" })).toHaveAttribute("aria-valuetext", "1 / 1");
  expect(screen.getByText("Raise maxConcurrentTasks.")).toBeInTheDocument();
});

test("a missing dependency is shown", () => {
  renderPage(
    <ExplainPanel
      explain={anExplanation({ dependencies: [{ task: "first", condition: "Succeeded", met: false, exists: false }] })}
      namespace="shop"
    />,
  );
  expect(screen.getByText(/does not exist/)).toBeInTheDocument();
});
