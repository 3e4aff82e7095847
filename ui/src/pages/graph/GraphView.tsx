import { useMemo, useState } from "react";
import type { GraphEdge, GraphNode } from "../../api/types";
import { classes } from "../../components/classes";
import surface from "../../components/surface.module.css";
import { layoutGraph, relativesOf } from "../../lib/layers";
import { GraphNodeView } from "./GraphNodeView";
import styles from "./GraphView.module.css";

/** The drawing. Every object is a link, so it works with a keyboard and a screen reader too. */
export function GraphView({ nodes, edges }: { nodes: GraphNode[]; edges: GraphEdge[] }) {
  const [pointed, setPointed] = useState<string | undefined>();
  const layout = useMemo(() => layoutGraph(nodes, edges), [nodes, edges]);
  const lit = useMemo(() => (pointed ? relativesOf(pointed, edges) : undefined), [pointed, edges]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: it is a scrolling frame.
    <div className={classes(surface.raised, styles.frame)} tabIndex={0} role="group" aria-label="Graph of references">
      {/* biome-ignore lint/a11y/noSvgWithoutTitle: the frame is named, and every node has a name of its own. */}
      <svg
        className={styles.drawing}
        style={{ maxWidth: layout.width }}
        viewBox={`0 0 ${layout.width} ${layout.height}`}
        preserveAspectRatio="xMidYMin meet"
      >
        {layout.edges.map(({ edge, path }) => {
          const on = lit?.has(edge.from) && lit.has(edge.to);
          return (
            <path
              key={`${edge.from}>${edge.to}>${edge.label}`}
              d={path}
              className={classes(styles.edge, on && styles.lit, lit && !on && styles.faded)}
            >
              <title>{edge.label}</title>
            </path>
          );
        })}
        {layout.nodes.map((place) => (
          <GraphNodeView
            key={place.node.id}
            place={place}
            state={lit === undefined ? "plain" : lit.has(place.node.id) ? "lit" : "faded"}
            onPoint={setPointed}
          />
        ))}
      </svg>
    </div>
  );
}
