import type { TextareaHTMLAttributes } from "react";
import { classes } from "./classes";
import styles from "./Input.module.css";

export interface TextAreaProps extends Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, "onChange"> {
  onValue: (value: string) => void;
}

export function TextArea({ onValue, className, ...rest }: TextAreaProps) {
  return (
    <textarea
      className={classes(styles.input, styles.area, className)}
      onChange={(event) => onValue(event.target.value)}
      {...rest}
    />
  );
}
