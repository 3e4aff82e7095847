import type { ButtonHTMLAttributes, ReactNode } from "react";
import styles from "./Button.module.css";
import { classes } from "./classes";
import { Spinner } from "./Spinner";

export type ButtonLook = "default" | "primary" | "danger" | "plain";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: ButtonLook;
  small?: boolean;
  icon?: ReactNode;
  /** Work is under way: the button waits and says so. */
  busy?: boolean;
}

export function Button({ look = "default", small, icon, busy, children, className, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      className={classes(buttonClass(look, small, !children), className)}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      {...rest}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  );
}

/** The same look for links that act like buttons. */
export function buttonClass(look: ButtonLook = "default", small = false, iconOnly = false): string {
  return classes(styles.button, look !== "default" && styles[look], small && styles.small, iconOnly && styles.icon);
}
