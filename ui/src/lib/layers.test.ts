import { expect, test } from "vitest";
import type { GraphEdge, GraphNode } from "../api/types";
import { layoutGraph, relativesOf } from "./layers";

const node = (id: string): GraphNode => ({ id, kind: id.split("/")[0] ?? "", namespace: "n", name: id });
const edge = (from: string, to: string): GraphEdge => ({ from, to, label: "uses" });

test("what is used stands left of what uses it", () => {
  const nodes = ["Task/1", "Agent/a", "Model/m", "Secret/s"].map(node);
  const edges = [edge("Secret/s", "Model/m"), edge("Model/m", "Agent/a"), edge("Agent/a", "Task/1")];
  const layer = new Map(layoutGraph(nodes, edges).nodes.map((placed) => [placed.node.id, placed.layer]));
  for (const { from, to } of edges) expect(layer.get(from)).toBeLessThan(layer.get(to) ?? -1);
});

test("no two nodes of a layer overlap", () => {
  const nodes = Array.from({ length: 12 }, (_, i) => node(`Task/${i}`));
  const placed = layoutGraph(
    [node("Agent/a"), ...nodes],
    nodes.map((n) => edge("Agent/a", n.id)),
  ).nodes;
  const places = placed.map(({ x, y }) => `${x}:${y}`);
  expect(new Set(places).size).toBe(13);
});

test("lines that need not cross do not cross", () => {
  const nodes = ["Agent/1", "Agent/2", "Task/2", "Task/1"].map(node);
  const placed = layoutGraph(nodes, [edge("Agent/1", "Task/1"), edge("Agent/2", "Task/2")]).nodes;
  const y = (id: string) => placed.find((p) => p.node.id === id)?.y ?? 0;
  expect(Math.sign(y("Agent/1") - y("Agent/2"))).toBe(Math.sign(y("Task/1") - y("Task/2")));
});

test("every kind has its column, also of those that refer to nothing", () => {
  const placed = layoutGraph(["Agent/a", "Agent/b", "Model/m"].map(node), [edge("Model/m", "Agent/a")]).nodes;
  const layer = (id: string) => placed.find((p) => p.node.id === id)?.layer;
  expect(layer("Agent/a")).toBe(layer("Agent/b"));
});

test("a circle and an edge to nowhere do no harm", () => {
  const layout = layoutGraph([node("A/1"), node("A/2")], [edge("A/1", "A/2"), edge("A/2", "A/1"), edge("A/1", "gone")]);
  expect(layout.nodes).toHaveLength(2);
  expect(layout.edges).toHaveLength(2);
});

test("relatives are ancestors and descendants, not cousins", () => {
  const edges = [edge("s", "m"), edge("m", "a"), edge("m", "b"), edge("a", "t")];
  expect([...relativesOf("a", edges)].sort()).toEqual(["a", "m", "s", "t"]);
});
