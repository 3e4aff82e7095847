import { FileDiff } from "lucide-react";
import { ApiError } from "../../api/error";
import type { Task } from "../../api/types";
import { Card } from "../../components/Card";
import { DiffView } from "../../components/DiffView";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Notice } from "../../components/Notice";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { DiffStat } from "../../diff/DiffStat";
import { changedFiles } from "../../lib/fileChanges";
import { isFinished } from "../../lib/phase";
import { noSession, useMessages } from "../../session/useMessages";
import { useChanges } from "./useChanges";
import { WorkspaceChanges } from "./WorkspaceChanges";

/** The changes of the run: the difference of the workspace, else what the tools of the agent reported. */
export function TaskChanges({ task }: { task: Task }) {
  const changes = useChanges(task);
  if (changes.isLoading) return <SkeletonBlock lines={8} label="Loading the changes" />;
  if (changes.error && !ApiError.is(changes.error, 404)) {
    return <ErrorState small error={changes.error} onRetry={() => changes.refetch()} />;
  }
  if (changes.data?.compared) {
    const { fileCount, commitCount, notes } = changes.data;
    if (fileCount === 0 && commitCount === 0) {
      return <Nothing>{["No file of the workspace changed.", ...notes].join(" ")}</Nothing>;
    }
    return <WorkspaceChanges key={task.runEpoch} task={task} changes={changes.data} />;
  }
  return <ToolChanges task={task} notes={changes.data?.notes} />;
}

/** The changed files, as reported by the tools of the agent. */
function ToolChanges({ task, notes }: { task: Task; notes: string[] | undefined }) {
  const messages = useMessages(task, task.phase === "Running");
  const missing =
    notes?.join(" ") ??
    (isFinished(task.phase)
      ? "Files changed by shell commands are not listed."
      : "Files changed by shell commands are listed when the run has ended.");
  if (!messages.isEnabled || ApiError.is(messages.error, 404)) return <Nothing>{noSession(task)}</Nothing>;
  if (messages.error) return <ErrorState small error={messages.error} onRetry={() => messages.refetch()} />;
  if (!messages.data) return <SkeletonBlock lines={8} label="Loading the changes" />;
  const files = changedFiles(messages.data);
  if (files.length === 0) {
    return <Nothing>{`No files were changed by the agent's tools. ${missing}`}</Nothing>;
  }
  return (
    <Stack gap={4}>
      <Notice tone="warn">{missing}</Notice>
      {files.map((file) => (
        <Card key={file.path} title={file.path} tools={<DiffStat added={file.added} removed={file.removed} />}>
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
