import { CircleCheck, CircleDashed, CircleX, Clock3, LoaderCircle } from "lucide-react";
import type { Status, Tone } from "../lib/phase";
import styles from "./Badge.module.css";
import { classes } from "./classes";
import motion from "./motion.module.css";
import tones from "./tones.module.css";

const ICONS: Record<Tone, typeof CircleCheck> = {
  good: CircleCheck,
  bad: CircleX,
  warn: Clock3,
  busy: LoaderCircle,
  idle: CircleDashed,
};

/** A status as colour, icon and text: never colour alone. */
export function Badge({ status, title }: { status: Status; title?: string }) {
  const Icon = ICONS[status.tone];
  return (
    <span className={classes(styles.badge, tones[status.tone])} title={title ?? status.label}>
      <Icon
        size={13}
        strokeWidth={2.4}
        className={status.tone === "busy" ? motion.spin : undefined}
        aria-hidden="true"
      />
      <span className={styles.label}>{status.label}</span>
    </span>
  );
}
