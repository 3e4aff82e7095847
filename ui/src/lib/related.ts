import type { GraphEdge } from "../api/types";

/** The ancestors and descendants of a node, and the node itself: what is highlighted on hover. */
export function relatedTo(id: string, edges: GraphEdge[]): Set<string> {
  const ancestors = reachable(id, adjacency(edges, "to", "from"));
  const descendants = reachable(id, adjacency(edges, "from", "to"));
  return new Set([...ancestors, ...descendants]);
}

function adjacency(edges: GraphEdge[], key: "from" | "to", neighbour: "from" | "to"): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const edge of edges) {
    const neighbours = found.get(edge[key]);
    if (neighbours) neighbours.push(edge[neighbour]);
    else found.set(edge[key], [edge[neighbour]]);
  }
  return found;
}

function reachable(start: string, neighbours: Map<string, string[]>): Set<string> {
  const visited = new Set([start]);
  for (const id of visited) {
    // A Set iterates over the values that are added during the iteration.
    for (const next of neighbours.get(id) ?? []) visited.add(next);
  }
  return visited;
}
