import type { ReactNode } from "react";
import { Button, type ButtonProps } from "./Button";

export interface IconButtonProps extends Omit<ButtonProps, "children" | "icon"> {
  /** Accessible name and tooltip. */
  label: string;
  icon: ReactNode;
}

export function IconButton({ label, variant = "plain", ...rest }: IconButtonProps) {
  return <Button variant={variant} aria-label={label} title={label} {...rest} />;
}
