import styles from "./DiffStat.module.css";

/** The numbers of added and removed lines. */
export function DiffStat({ added, removed }: { added: number; removed: number }) {
  return (
    <span className={styles.stat}>
      <span className={styles.added}>+{added}</span> <span className={styles.removed}>−{removed}</span>
    </span>
  );
}
