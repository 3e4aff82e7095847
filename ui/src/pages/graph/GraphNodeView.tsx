import { Link } from "react-router";
import { pageOf } from "../../api/kinds";
import type { GraphNode } from "../../api/types";
import { classes } from "../../components/classes";
import { NODE_HEIGHT, NODE_WIDTH } from "../../lib/graphLayout";
import styles from "./GraphView.module.css";

const MAX_LENGTH = 18;

function truncate(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text;
}

export interface GraphNodeViewProps {
  node: GraphNode;
  x: number;
  y: number;
  state: "plain" | "highlighted" | "faded";
  onHover: (id: string | undefined) => void;
}

export function GraphNodeView({ node, x, y, state, onHover }: GraphNodeViewProps) {
  const missing = node.exists === false;
  const condition = missing ? "missing" : node.ready === false ? "not ready" : node.ready ? "ready" : undefined;
  const to = missing ? undefined : pageOf(node.kind, node.namespace, node.name);
  const className = classes(
    styles.node,
    missing && styles.missing,
    state === "highlighted" && styles.highlighted,
    state === "faded" && styles.faded,
  );
  const label = `${node.kind} ${node.name}${condition ? `, ${condition}` : ""}`;
  const events = {
    onMouseEnter: () => onHover(node.id),
    onMouseLeave: () => onHover(undefined),
    onFocus: () => onHover(node.id),
    onBlur: () => onHover(undefined),
  };
  const content = (
    <g transform={`translate(${x} ${y})`}>
      <title>{[label, node.detail, node.namespace].filter(Boolean).join(" · ")}</title>
      <rect className={styles.box} width={NODE_WIDTH} height={NODE_HEIGHT} rx={6} />
      <text className={styles.kind} x={10} y={17}>
        {node.kind}
        {condition === "missing" || condition === "not ready" ? ` · ${condition}` : ""}
      </text>
      <text className={styles.name} x={10} y={35}>
        {truncate(node.kind === "Tasks" ? (node.detail ?? node.name) : node.name)}
      </text>
      {condition && (
        <circle
          className={condition === "ready" ? styles.ready : missing ? styles.gone : styles.notReady}
          cx={NODE_WIDTH - 12}
          cy={13}
          r={4}
        />
      )}
    </g>
  );
  return to ? (
    <Link to={to} className={className} {...events}>
      {content}
    </Link>
  ) : (
    // biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: a group of shapes is not interactive.
    <g role="img" className={className} aria-label={label} {...events}>
      {content}
    </g>
  );
}
