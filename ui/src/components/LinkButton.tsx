import type { ReactNode } from "react";
import { Link, type LinkProps } from "react-router";
import { type ButtonVariant, buttonClass } from "./Button";

export interface LinkButtonProps extends LinkProps {
  variant?: ButtonVariant;
  small?: boolean;
  icon?: ReactNode;
}

export function LinkButton({ variant, small, icon, children, ...rest }: LinkButtonProps) {
  return (
    <Link className={buttonClass(variant, small)} {...rest}>
      {icon}
      {children}
    </Link>
  );
}
