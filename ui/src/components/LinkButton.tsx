import type { ReactNode } from "react";
import { Link, type LinkProps } from "react-router";
import { type ButtonLook, buttonClass } from "./Button";

export interface LinkButtonProps extends LinkProps {
  look?: ButtonLook;
  small?: boolean;
  icon?: ReactNode;
}

export function LinkButton({ look, small, icon, children, ...rest }: LinkButtonProps) {
  return (
    <Link className={buttonClass(look, small)} {...rest}>
      {icon}
      {children}
    </Link>
  );
}
