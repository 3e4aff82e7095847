import { classes } from "../../components/classes";
import surface from "../../components/surface.module.css";
import styles from "./ChartTooltip.module.css";

export interface ChartTooltipProps {
  title: string;
  lines: [string, string][];
}

export function ChartTooltip({ title, lines }: ChartTooltipProps) {
  return (
    <div className={classes(surface.floating, styles.tip)}>
      <span className="quiet">{title}</span>
      {lines.map(([name, value]) => (
        <span key={name}>
          {name} <strong>{value}</strong>
        </span>
      ))}
    </div>
  );
}
