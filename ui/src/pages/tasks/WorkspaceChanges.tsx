import { ChevronsDownUp, ChevronsUpDown, WrapText } from "lucide-react";
import { useId, useState } from "react";
import type { ChangedFile, Task, TaskChanges } from "../../api/types";
import { Card } from "../../components/Card";
import { CopyButton } from "../../components/CopyButton";
import { IconButton } from "../../components/IconButton";
import { Notice } from "../../components/Notice";
import { Rows } from "../../components/Rows";
import { Segmented } from "../../components/Segmented";
import { Stack } from "../../components/Stack";
import { isCollapsed } from "../../diff/collapse";
import { DiffFile } from "../../diff/DiffFile";
import { DiffStat } from "../../diff/DiffStat";
import { FileList } from "../../diff/FileList";
import { plural } from "../../lib/format";
import { usePreference } from "../../lib/preference";
import { usePhone } from "../../list/usePhone";
import { DownloadPatch } from "./DownloadPatch";
import { PublishedLink } from "./PublishedLink";
import styles from "./WorkspaceChanges.module.css";

/** The files and commits by which the workspace differs from how it was before the run. */
export function WorkspaceChanges({ task, changes }: { task: Task; changes: TaskChanges }) {
  const { files, fileCount, insertions, deletions, commits, commitCount, notes } = changes;
  const [chosen, setLayout] = usePreference("diff.layout", ["unified", "split"], "unified");
  const [wrap, setWrap] = usePreference("diff.wrap", ["on", "off"], "on");
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const base = useId();
  // Two columns of code do not fit a phone.
  const layout = usePhone() ? "unified" : chosen;
  const isOpen = (file: ChangedFile) => toggled.get(file.path) ?? !isCollapsed(file);
  const setOpen = (changed: ChangedFile[], open: boolean) =>
    setToggled(new Map([...toggled, ...changed.map(({ path }): [string, boolean] => [path, open])]));
  const idOf = (file: ChangedFile) => `${base}-${files.indexOf(file)}`;
  const show = (file: ChangedFile) => {
    setOpen([file], true);
    const section = document.getElementById(idOf(file));
    section?.scrollIntoView?.({ block: "start" });
    section?.focus({ preventScroll: true });
  };
  const allOpen = files.every(isOpen);
  return (
    <Stack gap={4}>
      <div className={styles.tools}>
        <p className="quiet">
          {plural(fileCount, "file")} changed, <DiffStat added={insertions} removed={deletions} />
          {commitCount > 0 && `, ${plural(commitCount, "commit")}`}
        </p>
        <div className={styles.actions}>
          <Segmented
            label="Layout of the diff"
            value={chosen}
            options={[
              { value: "unified", label: "Unified" },
              { value: "split", label: "Side by side" },
            ]}
            onValue={setLayout}
          />
          <IconButton
            small
            label={wrap === "on" ? "Disable line wrap" : "Wrap lines"}
            aria-pressed={wrap === "on"}
            variant={wrap === "on" ? "default" : "plain"}
            icon={<WrapText size={15} />}
            // Lines beside each other have the same height, so they always wrap.
            disabled={layout === "split"}
            onClick={() => setWrap(wrap === "on" ? "off" : "on")}
          />
          <IconButton
            small
            label={allOpen ? "Collapse all files" : "Expand all files"}
            icon={allOpen ? <ChevronsDownUp size={15} /> : <ChevronsUpDown size={15} />}
            onClick={() => setOpen(files, !allOpen)}
          />
          {fileCount > 0 && <DownloadPatch task={task} changes={changes} />}
        </div>
      </div>
      {task.published && (
        <Notice tone="idle">
          <span className={styles.published}>
            Published to <PublishedLink published={task.published} />
          </span>
        </Notice>
      )}
      {notes.map((note) => (
        <Notice key={note} tone="warn">
          {note}
        </Notice>
      ))}
      {commits.length > 0 && (
        <Card title="Commits">
          <Rows
            rows={commits.map((commit) => ({
              key: commit.id,
              name: commit.subject,
              fact: (
                <Stack row gap={1}>
                  <code title={commit.id}>{commit.id.slice(0, 10)}</code>
                  <CopyButton text={commit.id} label={`Copy the id of ${commit.subject}`} />
                </Stack>
              ),
            }))}
          />
          {commitCount > commits.length && <p className="quiet">The newest {commits.length} commits are listed.</p>}
        </Card>
      )}
      <div className={files.length > 1 ? styles.columns : undefined}>
        {files.length > 1 && (
          <div className={styles.list}>
            <FileList files={files} onChoose={show} />
          </div>
        )}
        <Stack gap={3}>
          {files.map((file) => (
            <DiffFile
              key={file.path}
              id={idOf(file)}
              file={file}
              open={isOpen(file)}
              onToggle={() => setOpen([file], !isOpen(file))}
              layout={layout}
              wrap={wrap === "on"}
            />
          ))}
          {fileCount > files.length && <p className="quiet">The first {files.length} files are listed.</p>}
        </Stack>
      </div>
    </Stack>
  );
}
