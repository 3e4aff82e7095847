import { useState } from "react";
import type { ChangedFile } from "../api/types";
import { Card } from "../components/Card";
import { classes } from "../components/classes";
import { TextInput } from "../components/TextInput";
import { DiffStat } from "./DiffStat";
import styles from "./FileList.module.css";

/** Fewer files need no filter. */
const MANY = 12;

const LETTERS: Record<ChangedFile["status"], string> = { added: "A", modified: "M", deleted: "D", renamed: "R" };
const TONES: Record<ChangedFile["status"], string | undefined> = {
  added: styles.added,
  modified: undefined,
  deleted: styles.deleted,
  renamed: styles.renamed,
};

/** The changed files with their statistics; choosing one shows its changes. */
export function FileList({ files, onChoose }: { files: ChangedFile[]; onChoose: (file: ChangedFile) => void }) {
  const [filter, setFilter] = useState("");
  const shown = files.filter(({ path }) => path.toLowerCase().includes(filter.toLowerCase()));
  return (
    <Card title="Files" tools={<span>{files.length}</span>} flush className={styles.card}>
      {files.length > MANY && (
        <div className={styles.filter}>
          <TextInput
            type="search"
            aria-label="Filter the files"
            placeholder="Filter the files"
            data-filter=""
            value={filter}
            onValue={setFilter}
          />
        </div>
      )}
      <ul className={styles.list} aria-label="Changed files">
        {shown.map((file) => {
          const slash = file.path.lastIndexOf("/") + 1;
          return (
            <li key={file.path}>
              <button type="button" className={styles.file} title={file.path} onClick={() => onChoose(file)}>
                <span className={classes(styles.letter, TONES[file.status])} aria-hidden="true">
                  {LETTERS[file.status]}
                </span>
                <span className={styles.name}>
                  <span className={styles.base}>{file.path.slice(slash)}</span>
                  {slash > 0 && <span className={styles.directory}>{file.path.slice(0, slash - 1)}</span>}
                </span>
                <span className="visually-hidden">{file.status}</span>
                {file.binary ? (
                  <span className="quiet">binary</span>
                ) : (
                  <DiffStat added={file.insertions} removed={file.deletions} />
                )}
              </button>
            </li>
          );
        })}
      </ul>
      {shown.length === 0 && <p className={styles.none}>No file matches.</p>}
    </Card>
  );
}
