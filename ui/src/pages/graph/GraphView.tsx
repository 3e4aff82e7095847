import { useMemo, useState } from "react";
import type { GraphEdge, GraphNode } from "../../api/types";
import { classes } from "../../components/classes";
import surface from "../../components/surface.module.css";
import { type Layout, type LayoutNode, layoutGraph } from "../../lib/graphLayout";
import { relatedTo } from "../../lib/related";
import { GraphNodeView } from "./GraphNodeView";
import styles from "./GraphView.module.css";

/** A wide graph scrolls rather than becoming unreadable. */
const MIN_SCALE = 0.75;

/** Large graphs take a second to lay out, so only a changed structure does it again, not a changed status. */
function useLayout(nodes: GraphNode[], edges: GraphEdge[]): Layout {
  const structure = JSON.stringify({ nodes: nodes.map(({ id, kind }) => ({ id, kind })), edges });
  return useMemo(() => {
    const parsed: { nodes: LayoutNode[]; edges: GraphEdge[] } = JSON.parse(structure);
    return layoutGraph(parsed.nodes, parsed.edges);
  }, [structure]);
}

/** Every object is a link, so the graph works with a keyboard and a screen reader; focus highlights like hover. */
export function GraphView({ nodes, edges }: { nodes: GraphNode[]; edges: GraphEdge[] }) {
  const [hovered, setHovered] = useState<string | undefined>();
  const layout = useLayout(nodes, edges);
  const places = useMemo(() => new Map(layout.nodes.map((place) => [place.id, place])), [layout]);
  const highlighted = useMemo(() => (hovered ? relatedTo(hovered, edges) : undefined), [hovered, edges]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is no scrolling area.
    <div className={classes(surface.raised, styles.frame)} tabIndex={0} role="group" aria-label="Graph of references">
      {/* biome-ignore lint/a11y/noSvgWithoutTitle: the frame and every node have names. */}
      <svg
        className={styles.drawing}
        style={{ minWidth: layout.width * MIN_SCALE, maxWidth: layout.width }}
        viewBox={`0 0 ${layout.width} ${layout.height}`}
        preserveAspectRatio="xMidYMin meet"
      >
        {layout.edges.map(({ from, to, labels, path }) => {
          const on = highlighted?.has(from) && highlighted.has(to);
          return (
            <path
              key={`${from}>${to}`}
              d={path}
              className={classes(styles.edge, on && styles.highlighted, highlighted && !on && styles.faded)}
            >
              <title>{labels.join(", ")}</title>
            </path>
          );
        })}
        {nodes.map((node) => {
          const place = places.get(node.id);
          return (
            place && (
              <GraphNodeView
                key={node.id}
                node={node}
                x={place.x}
                y={place.y}
                state={highlighted === undefined ? "plain" : highlighted.has(node.id) ? "highlighted" : "faded"}
                onHover={setHovered}
              />
            )
          );
        })}
      </svg>
    </div>
  );
}
