import { FileDiff } from "lucide-react";
import { ApiError } from "../../api/error";
import type { Task } from "../../api/types";
import { Card } from "../../components/Card";
import { DiffView } from "../../components/DiffView";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { changedFiles } from "../../lib/fileChanges";
import { noSession, useMessages } from "../../session/useMessages";
import styles from "./TaskChanges.module.css";

/** The changed files, as reported by the tools of the agent. */
export function TaskChanges({ task }: { task: Task }) {
  const messages = useMessages(task, task.phase === "Running");
  if (!messages.isEnabled || ApiError.is(messages.error, 404)) return <Nothing>{noSession(task)}</Nothing>;
  if (messages.error) return <ErrorState small error={messages.error} onRetry={() => messages.refetch()} />;
  if (!messages.data) return <SkeletonBlock lines={8} label="Loading the changes" />;
  const files = changedFiles(messages.data);
  if (files.length === 0) {
    return (
      <Nothing>No files were changed by the agent's tools. Files changed by shell commands are not listed.</Nothing>
    );
  }
  return (
    <Stack gap={4}>
      {files.map((file) => (
        <Card
          key={file.path}
          title={file.path}
          tools={
            <>
              <span className={styles.added}>+{file.added}</span>
              <span className={styles.removed}>−{file.removed}</span>
            </>
          }
        >
          <Stack gap={2}>
            {file.changes.map((lines, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: changes are append-only.
              <DiffView key={i} lines={lines} label={`Change ${i + 1} of ${file.path}`} />
            ))}
          </Stack>
        </Card>
      ))}
    </Stack>
  );
}

function Nothing({ children }: { children: string }) {
  return (
    <EmptyState small title="No changes to show" icon={<FileDiff size={20} />}>
      {children}
    </EmptyState>
  );
}
