import styles from "./ChartLegend.module.css";

export function ChartLegend({ entries }: { entries: { label: string; colour: string }[] }) {
  return (
    <ul className={styles.legend}>
      {entries.map(({ label, colour }) => (
        <li key={label}>
          <span className={styles.dot} style={{ background: colour }} />
          {label}
        </li>
      ))}
    </ul>
  );
}
