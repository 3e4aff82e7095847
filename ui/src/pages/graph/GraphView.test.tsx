import { fireEvent, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { GraphEdge, GraphNode } from "../../api/types";
import { renderPage } from "../../test/wrap";
import { GraphView } from "./GraphView";

const node = (kind: string, name: string, part: Partial<GraphNode> = {}): GraphNode => ({
  id: `${kind}/${name}`,
  kind,
  namespace: "shop",
  name,
  ...part,
});

const NODES = [
  node("Model", "sonnet", { ready: true }),
  node("Agent", "dev", { ready: false }),
  node("Agent", "gone", { exists: false }),
  node("Task", "fix"),
];
const EDGES: GraphEdge[] = [
  { from: "Model/sonnet", to: "Agent/dev", label: "modelRef" },
  { from: "Agent/gone", to: "Task/fix", label: "agentRef" },
];

function show() {
  const { container } = renderPage(<GraphView nodes={NODES} edges={EDGES} />);
  return (name: string) => container.querySelectorAll(`.${name}`).length;
}

test("objects are links named by kind and name; missing objects are no links", () => {
  show();
  expect(screen.getByRole("link", { name: /^Model sonnet/ })).toHaveAttribute("href", "/kinds/models/shop/sonnet");
  expect(screen.getByRole("link", { name: /^Agent · not ready dev/ })).toBeInTheDocument();
  expect(screen.getByRole("img", { name: "Agent gone, missing" })).toBeInTheDocument();
});

test("focus and hover highlight related objects and fade the others", () => {
  const count = show();
  const model = screen.getByRole("link", { name: /^Model sonnet/ });
  for (const [enter, leave] of [
    [fireEvent.focus, fireEvent.blur],
    [fireEvent.mouseEnter, fireEvent.mouseLeave],
  ] as const) {
    enter(model);
    // Two nodes and their line; the other two nodes and their line.
    expect([count("highlighted"), count("faded")]).toEqual([3, 3]);
    leave(model);
    expect([count("highlighted"), count("faded")]).toEqual([0, 0]);
  }
});
