import styles from "./ChartTooltip.module.css";

export interface ChartTooltipProps {
  title: string;
  lines: [string, string][];
}

export function ChartTooltip({ title, lines }: ChartTooltipProps) {
  return (
    <div className={styles.tip}>
      <span className="quiet">{title}</span>
      {lines.map(([name, value]) => (
        <span key={name}>
          {name} <strong>{value}</strong>
        </span>
      ))}
    </div>
  );
}
