import type { InputHTMLAttributes, Ref } from "react";
import { classes } from "./classes";
import styles from "./Input.module.css";

export interface TextInputProps extends Omit<InputHTMLAttributes<HTMLInputElement>, "onChange"> {
  onValue: (value: string) => void;
  ref?: Ref<HTMLInputElement>;
}

export function TextInput({ onValue, className, ...rest }: TextInputProps) {
  return (
    <input
      type="text"
      autoComplete="off"
      spellCheck={false}
      className={classes(styles.input, className)}
      onChange={(event) => onValue(event.target.value)}
      {...rest}
    />
  );
}
