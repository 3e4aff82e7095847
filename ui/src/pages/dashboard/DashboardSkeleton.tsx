import { Skeleton } from "../../components/Skeleton";
import styles from "./Dashboard.module.css";

/** Placeholder while the dashboard is loading. */
export function DashboardSkeleton() {
  return (
    <div role="status" aria-label="Loading the dashboard">
      <div className={styles.tiles}>
        {["a", "b", "c", "d", "e"].map((key) => (
          <Skeleton key={key} height={98} />
        ))}
      </div>
      <div className={styles.grid} style={{ marginTop: 16 }}>
        <div className={styles.half}>
          <Skeleton height={278} />
        </div>
        <div className={styles.half}>
          <Skeleton height={278} />
        </div>
      </div>
    </div>
  );
}
