import type { ReactNode } from "react";
import { Button, type ButtonProps } from "./Button";

export interface IconButtonProps extends Omit<ButtonProps, "children" | "icon"> {
  /** What it does: read by screen readers, shown on hover. */
  label: string;
  icon: ReactNode;
}

export function IconButton({ label, look = "plain", ...rest }: IconButtonProps) {
  return <Button look={look} aria-label={label} title={label} {...rest} />;
}
