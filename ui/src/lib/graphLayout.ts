import { Graph, layout } from "@dagrejs/dagre";
import type { GraphEdge, GraphNode } from "../api/types";

/** What the layout depends on: the status of an object does not move it. */
export type LayoutNode = Pick<GraphNode, "id" | "kind">;

export interface PlacedNode {
  id: string;
  /** Column, counted from the left. */
  layer: number;
  /** Top left corner. */
  x: number;
  y: number;
}

export interface Point {
  x: number;
  y: number;
}

/** The connection between two nodes; several references between the same nodes share one line. */
export interface PlacedEdge {
  from: string;
  to: string;
  labels: string[];
  /** Corners of the route. Between two points with the same y the line crosses a column, otherwise a gap. */
  points: Point[];
  path: string;
}

export interface Layout {
  nodes: PlacedNode[];
  edges: PlacedEdge[];
  width: number;
  height: number;
}

export const NODE_WIDTH = 164;
export const NODE_HEIGHT = 46;
const COLUMN_GAP = 64;
const NODE_GAP = 16;
const EDGE_GAP = 12;
const MARGIN = 16;

/**
 * A layered layout: dependencies flow from left to right. dagre orders the nodes of each column and reserves a lane
 * for every line that passes a column. Lines change lanes only in the gaps between columns, therefore a line never
 * runs behind an unrelated node.
 */
export function layoutGraph(nodes: LayoutNode[], edges: GraphEdge[]): Layout {
  const kinds = new Map(nodes.map(({ id, kind }) => [id, kind]));
  const graph = new Graph<Settings, Box, Route>();
  graph.setGraph({
    rankdir: "LR",
    nodesep: NODE_GAP,
    edgesep: EDGE_GAP,
    ranksep: COLUMN_GAP,
    marginx: MARGIN,
    marginy: MARGIN,
    ranker: (ranked) => assignRanks(ranked, kinds),
  });
  for (const { id } of nodes) graph.setNode(id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const { from, to, label } of edges) {
    if (from === to || !kinds.has(from) || !kinds.has(to)) continue;
    const labels = graph.hasEdge(from, to) ? graph.edge(from, to).labels : [];
    // The default position reserves space for a label next to the line; labels are shown on hover instead.
    graph.setEdge(from, to, { labels: [...labels, label], labelpos: "c" });
  }
  if (nodes.length > 0) layout(graph);

  const columns = [...new Set(nodes.map(({ id }) => graph.node(id).x ?? 0))].sort((a, b) => a - b);
  const { width = 0, height = 0 } = graph.graph();
  return {
    nodes: nodes.map(({ id }) => {
      const { x = 0, y = 0 } = graph.node(id);
      return { id, layer: columns.indexOf(x), x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 };
    }),
    edges: graph.edges().map(({ v, w }) => {
      const { labels, points = [] } = graph.edge(v, w);
      const lanes = points.slice(1, -1).filter(({ x }) => columns.includes(x));
      const route = routeThrough([center(graph.node(v)), ...lanes, center(graph.node(w))]);
      return { from: v, to: w, labels, points: route, path: smooth(route) };
    }),
    width,
    height,
  };
}

interface Box extends Partial<Point> {
  width: number;
  height: number;
  rank?: number;
}

interface Route {
  labels: string[];
  labelpos: "c";
  points?: Point[];
}

interface Settings {
  rankdir: "LR";
  nodesep: number;
  edgesep: number;
  ranksep: number;
  marginx: number;
  marginy: number;
  ranker: (graph: Graph<unknown, Box, unknown>) => void;
  width?: number;
  height?: number;
}

/** The leftmost column of a kind: from credentials through configuration to the Tasks. */
const FIRST_COLUMN: Record<string, number> = {
  Secret: 0,
  ConfigMap: 0,
  ModelProvider: 1,
  MCPServer: 1,
  Model: 2,
  RemoteMCPServer: 2,
  AgentTool: 2,
  Instruction: 2,
  AgentTemplate: 3,
  Agent: 4,
  CronTask: 5,
  Task: 5,
  Tasks: 5,
  AgentWorkflow: 5,
};
/** Any other kind starts in the column of the Agents, which refer to all kinds. */
const DEFAULT_COLUMN = 4;
/** dagre keeps every second rank free for the labels of edges. */
const RANKS_PER_COLUMN = 2;

/**
 * Ranks a graph that dagre made acyclic: each kind has its column, and a node that depends on a node of the same
 * column moves to the right. Unused columns are removed.
 */
function assignRanks(graph: Graph<unknown, Box, unknown>, kinds: Map<string, string>): void {
  const columns = new Map<string, number>();
  const columnOf = (id: string): number => {
    const known = columns.get(id);
    if (known !== undefined) return known;
    const kind = kinds.get(id);
    // dagre adds a root node, which has no kind, and removes it after the ranking.
    const first = kind === undefined ? -1 : (FIRST_COLUMN[kind] ?? DEFAULT_COLUMN);
    const column = Math.max(first, ...(graph.predecessors(id) ?? []).map((other) => columnOf(other) + 1));
    columns.set(id, column);
    return column;
  };
  for (const id of graph.nodes()) columnOf(id);
  const used = [...new Set(columns.values())].sort((a, b) => a - b);
  for (const [id, column] of columns) graph.node(id).rank = used.indexOf(column) * RANKS_PER_COLUMN;
}

function center({ x = 0, y = 0 }: Box): Point {
  return { x, y };
}

/** Crosses every column horizontally, from the side of the first node to the side of the last node. */
function routeThrough(centers: Point[]): Point[] {
  const direction = Math.sign((centers.at(-1)?.x ?? 0) - (centers[0]?.x ?? 0));
  const side = (direction * NODE_WIDTH) / 2;
  const last = centers.length - 1;
  return centers.flatMap(({ x, y }, i) => [
    ...(i > 0 ? [{ x: x - side, y }] : []),
    ...(i < last ? [{ x: x + side, y }] : []),
  ]);
}

/** Straight lines across columns, S-curves in the gaps: a curve stays between its end points. */
function smooth([start, ...rest]: Point[]): string {
  let { x, y } = start ?? { x: 0, y: 0 };
  let path = `M${x} ${y}`;
  for (const next of rest) {
    const middle = (x + next.x) / 2;
    path += y === next.y ? ` H${next.x}` : ` C${middle} ${y}, ${middle} ${next.y}, ${next.x} ${next.y}`;
    ({ x, y } = next);
  }
  return path;
}
