import styles from "./Meter.module.css";

/** A usage bar; without a total only the number is shown. */
export function Meter({ label, used, total }: { label: string; used: number; total?: number }) {
  const text = total === undefined ? String(used) : `${used} / ${total}`;
  const part = total ? Math.min(1, used / total) : 0;
  return (
    <div className={styles.meter}>
      {total !== undefined && (
        // biome-ignore lint/a11y/useSemanticElements: the browser's own meter cannot be styled alike everywhere.
        <div
          className={styles.track}
          role="meter"
          aria-label={label}
          aria-valuemin={0}
          aria-valuemax={total}
          aria-valuenow={Math.min(used, total)}
          aria-valuetext={text}
        >
          <div className={styles.bar} style={{ width: `${part * 100}%` }} />
        </div>
      )}
      <span>{text}</span>
    </div>
  );
}
