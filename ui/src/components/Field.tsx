import { CircleAlert } from "lucide-react";
import { type ReactNode, useId } from "react";
import styles from "./Field.module.css";

/** Attributes that connect an input with its label, hint and error. */
export interface FieldParts {
  id: string;
  "aria-describedby"?: string;
  "aria-invalid"?: true;
  "aria-required"?: true;
}

export interface FieldProps {
  label: string;
  hint?: ReactNode;
  problem?: string;
  required?: boolean;
  children: (parts: FieldParts) => ReactNode;
}

/** A labelled input with hint and validation error. */
export function Field({ label, hint, problem, required, children }: FieldProps) {
  const id = useId();
  const describedBy = [hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(" ");
  return (
    <div className={styles.field}>
      <label className={styles.label} htmlFor={id}>
        {label}
        {!required && <span className={styles.optional}>optional</span>}
      </label>
      {children({
        id,
        "aria-describedby": describedBy || undefined,
        "aria-invalid": problem ? true : undefined,
        "aria-required": required ? true : undefined,
      })}
      {problem && (
        <span className={styles.problem} id={`${id}-problem`} role="alert">
          <CircleAlert size={12} aria-hidden="true" />
          {problem}
        </span>
      )}
      {hint && (
        <span className={styles.hint} id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  );
}
