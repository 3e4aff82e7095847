import { Link } from "react-router";
import { pageOf } from "../../api/kinds";
import { classes } from "../../components/classes";
import { NODE_HEIGHT, NODE_WIDTH, type PlacedNode } from "../../lib/layers";
import styles from "./GraphView.module.css";

const MOST_LETTERS = 18;

function cut(text: string): string {
  return text.length > MOST_LETTERS ? `${text.slice(0, MOST_LETTERS - 1)}…` : text;
}

export interface GraphNodeViewProps {
  place: PlacedNode;
  state: "plain" | "lit" | "faded";
  onPoint: (id: string | undefined) => void;
}

export function GraphNodeView({ place: { node, x, y }, state, onPoint }: GraphNodeViewProps) {
  const missing = node.exists === false;
  const condition = missing ? "missing" : node.ready === false ? "not ready" : node.ready ? "ready" : undefined;
  const to = missing ? undefined : pageOf(node.kind, node.namespace, node.name);
  const className = classes(
    styles.node,
    missing && styles.missing,
    state === "lit" && styles.lit,
    state === "faded" && styles.faded,
  );
  const label = `${node.kind} ${node.name}${condition ? `, ${condition}` : ""}`;
  const events = {
    onMouseEnter: () => onPoint(node.id),
    onMouseLeave: () => onPoint(undefined),
    onFocus: () => onPoint(node.id),
    onBlur: () => onPoint(undefined),
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
        {cut(node.kind === "Tasks" ? (node.detail ?? node.name) : node.name)}
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
    <g className={className} {...events}>
      {content}
    </g>
  );
}
