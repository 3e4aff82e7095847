import type { GraphEdge, GraphNode } from "../api/types";

export interface PlacedNode {
  node: GraphNode;
  layer: number;
  x: number;
  y: number;
}

export interface PlacedEdge {
  edge: GraphEdge;
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
const GAP_X = 44;
const GAP_Y = 14;
const PAD = 16;
const SWEEPS = 8;

/**
 * A layered drawing: what is used stands left of what uses it. The kinds have an order of their own, so each has its
 * column; within it, nodes are ordered by the middle of their neighbours, which keeps most lines from crossing.
 */
export function layoutGraph(nodes: GraphNode[], edges: GraphEdge[]): Layout {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const drawn = edges.filter((edge) => known.has(edge.from) && known.has(edge.to) && edge.from !== edge.to);
  const layers = layersOf(nodes);
  orderWithin(layers, drawn);

  const tallest = Math.max(1, ...layers.map((layer) => layer.length));
  const height = PAD * 2 + tallest * NODE_HEIGHT + (tallest - 1) * GAP_Y;
  const placed = new Map<string, PlacedNode>();
  layers.forEach((layer, at) => {
    const tall = layer.length * NODE_HEIGHT + (layer.length - 1) * GAP_Y;
    layer.forEach((id, row) => {
      const node = known.get(id);
      if (!node) return;
      placed.set(id, {
        node,
        layer: at,
        x: PAD + at * (NODE_WIDTH + GAP_X),
        y: (height - tall) / 2 + row * (NODE_HEIGHT + GAP_Y),
      });
    });
  });
  return {
    nodes: [...placed.values()],
    edges: drawn.flatMap((edge) => {
      const from = placed.get(edge.from);
      const to = placed.get(edge.to);
      return from && to ? [{ edge, path: curve(from, to) }] : [];
    }),
    width: PAD * 2 + layers.length * NODE_WIDTH + Math.max(0, layers.length - 1) * GAP_X,
    height,
  };
}

/** Which column a kind stands in: from what is given, over what is configured, to the work itself. */
const RANKS: Record<string, number> = {
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
/** A kind that is not known stands beside the Agents, which refer to everything. */
const UNKNOWN_RANK = 4;

/** Columns by kind; those that nobody needs are left out. */
function layersOf(nodes: GraphNode[]): string[][] {
  const layers: string[][] = [];
  for (const node of nodes) {
    const rank = RANKS[node.kind] ?? UNKNOWN_RANK;
    layers[rank] = [...(layers[rank] ?? []), node.id];
  }
  return layers.filter((layer) => layer !== undefined);
}

function orderWithin(layers: string[][], edges: GraphEdge[]): void {
  const near = new Map<string, string[]>();
  for (const { from, to } of edges) {
    near.set(from, [...(near.get(from) ?? []), to]);
    near.set(to, [...(near.get(to) ?? []), from]);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const order = sweep % 2 === 0 ? layers : [...layers].reverse();
    for (const layer of order) {
      const place = new Map<string, number>();
      for (const other of layers) {
        for (const [i, id] of other.entries()) place.set(id, other.length > 1 ? i / (other.length - 1) : 0.5);
      }
      const middle = (id: string) => {
        const others = near.get(id) ?? [];
        if (others.length === 0) return place.get(id) ?? 0;
        return others.reduce((sum, other) => sum + (place.get(other) ?? 0), 0) / others.length;
      };
      layer.sort((a, b) => middle(a) - middle(b));
    }
  }
}

function curve(from: PlacedNode, to: PlacedNode): string {
  const [x1, y1] = [from.x + NODE_WIDTH, from.y + NODE_HEIGHT / 2];
  const [x2, y2] = [to.x, to.y + NODE_HEIGHT / 2];
  const bend = Math.max(24, Math.abs(x2 - x1) / 2);
  return `M${x1} ${y1} C${x1 + bend} ${y1}, ${x2 - bend} ${y2}, ${x2} ${y2}`;
}

/** Everything that leads to a node or follows from it: what lights up when a person points at it. */
export function relativesOf(id: string, edges: GraphEdge[]): Set<string> {
  const found = new Set([id]);
  const walk = (start: string, next: (edge: GraphEdge, at: string) => string | undefined) => {
    const rest = [start];
    const seen = new Set(rest);
    for (let at = rest.pop(); at !== undefined; at = rest.pop()) {
      for (const edge of edges) {
        const other = next(edge, at);
        if (other !== undefined && !seen.has(other)) {
          seen.add(other);
          found.add(other);
          rest.push(other);
        }
      }
    }
  };
  walk(id, (edge, at) => (edge.from === at ? edge.to : undefined));
  walk(id, (edge, at) => (edge.to === at ? edge.from : undefined));
  return found;
}
