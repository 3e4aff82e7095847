import type { SelectHTMLAttributes } from "react";
import { classes } from "./classes";
import styles from "./Input.module.css";

export interface Option {
  value: string;
  label: string;
}

export interface SelectProps extends Omit<SelectHTMLAttributes<HTMLSelectElement>, "onChange"> {
  options: (Option | string)[];
  onValue: (value: string) => void;
}

/** A native select: it works with every keyboard, screen reader and phone. */
export function Select({ options, onValue, className, ...rest }: SelectProps) {
  return (
    <select className={classes(styles.input, className)} onChange={(event) => onValue(event.target.value)} {...rest}>
      {options.map((option) => {
        const { value, label } = typeof option === "string" ? { value: option, label: option } : option;
        return (
          <option key={value} value={value}>
            {label}
          </option>
        );
      })}
    </select>
  );
}
