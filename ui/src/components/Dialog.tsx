import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { classes } from "./classes";
import styles from "./Dialog.module.css";
import { IconButton } from "./IconButton";
import surface from "./surface.module.css";

export interface DialogProps {
  title: string;
  open: boolean;
  onClose: () => void;
  wide?: boolean;
  actions?: ReactNode;
  children: ReactNode;
}

/** A modal dialog. The browser traps the focus and restores it on close. */
export function Dialog({ title, open, onClose, wide, actions, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();

  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);

  if (!open) return null;
  return (
    <dialog
      ref={element}
      className={classes(surface.window, styles.dialog, wide && styles.wide)}
      aria-labelledby={heading}
      onClose={onClose}
      onCancel={onClose}
    >
      <div className={styles.head}>
        <h2 id={heading}>{title}</h2>
        <IconButton label="Close" icon={<X size={16} />} onClick={onClose} />
      </div>
      <div className={styles.body}>{children}</div>
      {actions && <div className={styles.foot}>{actions}</div>}
    </dialog>
  );
}
