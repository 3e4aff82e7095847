import { classes } from "./classes";
import motion from "./motion.module.css";
import styles from "./Skeleton.module.css";

/** Holds the place of what is loading, in its size, so that nothing jumps. */
export function Skeleton({ width = "100%", height = 14 }: { width?: string | number; height?: string | number }) {
  return <span className={classes(motion.breathing, styles.bone)} style={{ width, height }} aria-hidden="true" />;
}
