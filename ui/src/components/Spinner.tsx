import { classes } from "./classes";
import motion from "./motion.module.css";
import styles from "./Spinner.module.css";

export function Spinner() {
  return <span className={classes(motion.spin, styles.spinner)} aria-hidden="true" />;
}
