import { classes } from "./classes";
import motion from "./motion.module.css";
import styles from "./Skeleton.module.css";

/** A placeholder of the final size, to avoid layout shift. */
export function Skeleton({ width = "100%", height = 14 }: { width?: string | number; height?: string | number }) {
  return <span className={classes(motion.pulse, styles.bone)} style={{ width, height }} aria-hidden="true" />;
}
