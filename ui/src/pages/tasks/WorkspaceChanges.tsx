import type { TaskChanges } from "../../api/types";
import { Card } from "../../components/Card";
import { DiffView } from "../../components/DiffView";
import { Notice } from "../../components/Notice";
import { Rows } from "../../components/Rows";
import { Stack } from "../../components/Stack";
import { readUnified } from "../../lib/changes";
import { plural } from "../../lib/format";
import styles from "./TaskChanges.module.css";

/** The files and commits by which the workspace differs from how it was before the run. */
export function WorkspaceChanges({ changes }: { changes: TaskChanges }) {
  const { files, fileCount, insertions, deletions, commits, commitCount, notes } = changes;
  return (
    <Stack gap={4}>
      <p className="quiet">
        {plural(fileCount, "file")} changed, <span className={styles.added}>+{insertions}</span>{" "}
        <span className={styles.removed}>−{deletions}</span>
        {commitCount > 0 && `, ${plural(commitCount, "commit")}`}
      </p>
      {notes.map((note) => (
        <Notice key={note} tone="warn">
          {note}
        </Notice>
      ))}
      {commits.length > 0 && (
        <Card title="Commits">
          <Rows
            rows={commits.map((commit) => ({ key: commit.id, name: commit.subject, fact: commit.id.slice(0, 10) }))}
          />
        </Card>
      )}
      {files.map((file) => (
        <Card
          key={file.path}
          title={file.oldPath ? `${file.oldPath} → ${file.path}` : file.path}
          tools={
            <>
              {file.status !== "modified" && <span className="quiet">{file.status}</span>}
              <span className={styles.added}>+{file.insertions}</span>
              <span className={styles.removed}>−{file.deletions}</span>
            </>
          }
        >
          <Stack gap={2}>
            {file.patch !== "" && !file.binary && (
              <DiffView lines={readUnified(file.patch)} label={`Changes of ${file.path}`} />
            )}
            {file.binary && <p className="quiet">Binary or large file: no diff.</p>}
            {file.cut && <p className="quiet">The diff is too long to show in full.</p>}
          </Stack>
        </Card>
      ))}
      {fileCount > files.length && <p className="quiet">The first {files.length} files are listed.</p>}
    </Stack>
  );
}
