import { describe, expect, test } from "vitest";
import type { GraphEdge } from "../api/types";
import {
  type Layout,
  type LayoutNode,
  layoutGraph,
  NODE_HEIGHT,
  NODE_WIDTH,
  type PlacedNode,
  type Point,
} from "./graphLayout";

const node = (id: string): LayoutNode => ({ id, kind: id.split("/")[0] ?? "" });
const edge = (from: string, to: string, label = "uses"): GraphEdge => ({ from, to, label });

const KINDS = ["Secret", "ModelProvider", "Model", "AgentTool", "AgentTemplate", "Agent", "CronTask", "Task", "Other"];

/** A small deterministic generator (mulberry32), so that a failure can be repeated by its seed. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

/** Any graph: with edges between all columns, in both directions, cycles, and nodes without edges. */
function anyGraph(seed: number): [LayoutNode[], GraphEdge[]] {
  const below = generator(seed);
  const nodes = Array.from({ length: 2 + below(40) }, (_, i) => node(`${KINDS[below(KINDS.length)]}/${i}`));
  const pick = () => nodes[below(nodes.length)]?.id ?? "";
  return [nodes, Array.from({ length: below(nodes.length * 2) }, () => edge(pick(), pick(), `label ${below(3)}`))];
}

const overlaps = (a: PlacedNode, b: PlacedNode) =>
  Math.abs(a.x - b.x) < NODE_WIDTH && Math.abs(a.y - b.y) < NODE_HEIGHT;

/** Whether a segment meets the inside of a box (Liang and Barsky). */
function crosses(from: Point, to: Point, box: PlacedNode): boolean {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  let [enter, leave] = [0, 1];
  for (const [delta, distance] of [
    [-dx, from.x - box.x],
    [dx, box.x + NODE_WIDTH - from.x],
    [-dy, from.y - box.y],
    [dy, box.y + NODE_HEIGHT - from.y],
  ] as const) {
    if (delta === 0) {
      if (distance <= 0) return false;
    } else if (delta < 0) enter = Math.max(enter, distance / delta);
    else leave = Math.min(leave, distance / delta);
  }
  return enter < leave;
}

/** Points on the drawn line: the polyline, and each curve in 16 pieces. */
function drawn(path: string): Point[] {
  const points: Point[] = [];
  for (const [, command, list = ""] of path.matchAll(/([MHC])([^MHC]*)/g)) {
    const numbers = list
      .trim()
      .split(/[\s,]+/)
      .map(Number);
    const { x, y } = points.at(-1) ?? { x: 0, y: 0 };
    if (command === "M") points.push({ x: numbers[0] ?? 0, y: numbers[1] ?? 0 });
    else if (command === "H") points.push({ x: numbers[0] ?? 0, y });
    else {
      const [x1 = 0, y1 = 0, x2 = 0, y2 = 0, x3 = 0, y3 = 0] = numbers;
      for (let i = 1; i <= 16; i += 1) {
        const t = i / 16;
        const at = (a: number, b: number, c: number, d: number) =>
          (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t ** 2 * c + t ** 3 * d;
        points.push({ x: at(x, x1, x2, x3), y: at(y, y1, y2, y3) });
      }
    }
  }
  return points;
}

/** "edge behind node" for every line that meets the box of a node that it does not connect. */
function hiddenEdges({ nodes, edges }: Layout): string[] {
  return edges.flatMap(({ from, to, points, path }) =>
    [points, drawn(path)].flatMap((line) =>
      nodes
        .filter((box) => box.id !== from && box.id !== to)
        .filter((box) => line.some((point, i) => i > 0 && crosses(line[i - 1] ?? point, point, box)))
        .map((box) => `${from} > ${to} behind ${box.id}`),
    ),
  );
}

describe.each(Array.from({ length: 60 }, (_, seed) => seed))("generated graph %i", (seed) => {
  const [nodes, edges] = anyGraph(seed);
  const placed = layoutGraph(nodes, edges);

  test("nodes do not overlap and lie inside the drawing", () => {
    const pairs = placed.nodes.flatMap((a, i) => placed.nodes.slice(i + 1).map((b) => [a, b] as const));
    expect(pairs.filter(([a, b]) => overlaps(a, b))).toEqual([]);
    for (const { x, y } of placed.nodes) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(x + NODE_WIDTH).toBeLessThanOrEqual(placed.width);
      expect(y + NODE_HEIGHT).toBeLessThanOrEqual(placed.height);
    }
  });

  test("edges do not cross unrelated nodes", () => {
    expect(hiddenEdges(placed)).toEqual([]);
  });

  test("edges start and end at their nodes", () => {
    const box = new Map(placed.nodes.map((each) => [each.id, each]));
    for (const { from, to, points } of placed.edges) {
      for (const [id, end] of [
        [from, points[0]],
        [to, points.at(-1)],
      ] as const) {
        const { x = 0, y = 0 } = box.get(id) ?? {};
        expect([x, x + NODE_WIDTH]).toContainEqual(end?.x);
        expect(end?.y).toBeCloseTo(y + NODE_HEIGHT / 2);
      }
    }
  });
});

test("dependencies flow from left to right", () => {
  const nodes = ["Task/2", "Task/1", "Agent/a", "Model/m", "Secret/s"].map(node);
  const edges = [
    edge("Secret/s", "Model/m"),
    edge("Model/m", "Agent/a"),
    edge("Agent/a", "Task/1"),
    edge("Secret/s", "Task/1"),
    edge("Task/1", "Task/2", "dependsOn"),
  ];
  const layer = new Map(layoutGraph(nodes, edges).nodes.map((placed) => [placed.id, placed.layer]));
  for (const { from, to } of edges) expect(layer.get(from)).toBeLessThan(layer.get(to) ?? -1);
});

test("edges that need not cross do not cross", () => {
  const nodes = ["Agent/1", "Agent/2", "Task/2", "Task/1"].map(node);
  const placed = layoutGraph(nodes, [edge("Agent/1", "Task/1"), edge("Agent/2", "Task/2")]).nodes;
  const y = (id: string) => placed.find((p) => p.id === id)?.y ?? 0;
  expect(Math.sign(y("Agent/1") - y("Agent/2"))).toBe(Math.sign(y("Task/1") - y("Task/2")));
});

test("nodes of one kind share a column, also those without edges", () => {
  const placed = layoutGraph(["Agent/a", "Agent/b", "Model/m"].map(node), [edge("Model/m", "Agent/a")]).nodes;
  const layer = (id: string) => placed.find((p) => p.id === id)?.layer;
  expect(layer("Agent/a")).toBe(layer("Agent/b"));
});

test("references between the same nodes share a line", () => {
  const [line, ...others] = layoutGraph(
    [node("Model/m"), node("Agent/a")],
    [edge("Model/m", "Agent/a", "modelRef"), edge("Model/m", "Agent/a", "smallModelRef")],
  ).edges;
  expect(line?.labels).toEqual(["modelRef", "smallModelRef"]);
  expect(others).toEqual([]);
});

test("cycles are drawn, edges to unknown nodes are not", () => {
  const layout = layoutGraph([node("A/1"), node("A/2")], [edge("A/1", "A/2"), edge("A/2", "A/1"), edge("A/1", "gone")]);
  expect(layout.nodes).toHaveLength(2);
  expect(layout.edges).toHaveLength(2);
});

test("an empty graph has an empty layout", () => {
  expect(layoutGraph([], [])).toMatchObject({ nodes: [], edges: [] });
});
