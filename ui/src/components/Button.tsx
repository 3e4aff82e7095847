import type { ButtonHTMLAttributes, ReactNode } from "react";
import styles from "./Button.module.css";
import { classes } from "./classes";
import { Spinner } from "./Spinner";

export type ButtonVariant = "default" | "primary" | "danger" | "plain";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: ButtonVariant;
  small?: boolean;
  icon?: ReactNode;
  /** Disables the button and shows a spinner. */
  busy?: boolean;
}

export function Button({
  variant = "default",
  small,
  icon,
  busy,
  children,
  className,
  disabled,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      className={classes(buttonClass(variant, small, !children), className)}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      {...rest}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  );
}

/** Class names for links that look like buttons. */
export function buttonClass(variant: ButtonVariant = "default", small = false, iconOnly = false): string {
  return classes(
    styles.button,
    variant !== "default" && styles[variant],
    small && styles.small,
    iconOnly && styles.icon,
  );
}
