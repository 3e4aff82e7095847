import type { ReactNode } from "react";
import { Button } from "./Button";
import styles from "./ConfirmDialog.module.css";
import { Dialog } from "./Dialog";
import { Problem } from "./Problem";

export interface ConfirmDialogProps {
  title: string;
  open: boolean;
  /** The effect, in one sentence. */
  children: ReactNode;
  /** What is removed, one line each. */
  consequences?: string[];
  confirm: string;
  danger?: boolean;
  busy?: boolean;
  error?: unknown;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks for confirmation of an irreversible action. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  return (
    <Dialog
      title={props.title}
      open={props.open}
      onClose={props.onClose}
      actions={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button variant={props.danger ? "danger" : "primary"} busy={props.busy} onClick={props.onConfirm}>
            {props.confirm}
          </Button>
        </>
      }
    >
      <p>{props.children}</p>
      {props.consequences && props.consequences.length > 0 && (
        <ul className={`${styles.list} bullets`}>
          {props.consequences.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
      {props.error ? <Problem error={props.error} /> : null}
    </Dialog>
  );
}
