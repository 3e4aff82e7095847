import { CircleAlert, CircleCheck, X } from "lucide-react";
import { classes } from "./classes";
import { IconButton } from "./IconButton";
import surface from "./surface.module.css";
import styles from "./Toasts.module.css";
import { dismissToast, useToasts } from "./toast";

export function Toasts() {
  const toasts = useToasts();
  return (
    <div className={styles.toasts} aria-live="polite">
      {toasts.map(({ id, tone, text }) => (
        <div
          key={id}
          className={classes(surface.floating, styles.toast, styles[tone])}
          role={tone === "bad" ? "alert" : "status"}
        >
          {tone === "good" ? (
            <CircleCheck size={16} aria-hidden="true" />
          ) : (
            <CircleAlert size={16} aria-hidden="true" />
          )}
          <span>{text}</span>
          <IconButton small label="Dismiss" icon={<X size={14} />} onClick={() => dismissToast(id)} />
        </div>
      ))}
    </div>
  );
}
