import { FileQuestion, Lock, RotateCw, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { ApiError } from "../api/error";
import { Button } from "./Button";
import { classes } from "./classes";
import styles from "./EmptyState.module.css";

const TITLES: Record<number, string> = {
  0: "Server unreachable",
  403: "Access denied",
  404: "Not found",
};

export interface ErrorStateProps {
  error: unknown;
  onRetry?: () => void;
  /** An alternative action. */
  action?: ReactNode;
  small?: boolean;
}

/** An error, with a retry button if a retry can help. */
export function ErrorState({ error, onRetry, action, small }: ErrorStateProps) {
  const code = error instanceof ApiError ? error.code : -1;
  const Icon = code === 403 ? Lock : code === 404 ? FileQuestion : TriangleAlert;
  return (
    <div className={classes(styles.empty, code !== 404 && styles.bad, small && styles.small)} role="alert">
      <div className={styles.icon} aria-hidden="true">
        <Icon size={20} />
      </div>
      <h2>{TITLES[code] ?? "Request failed"}</h2>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      <div className={styles.action}>
        {onRetry && code !== 403 && (
          <Button icon={<RotateCw size={14} />} onClick={onRetry}>
            Try again
          </Button>
        )}
        {action}
      </div>
    </div>
  );
}
