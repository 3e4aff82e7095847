import { ChevronDown, ChevronRight } from "lucide-react";
import { useId, useMemo, useRef } from "react";
import type { ChangedFile } from "../api/types";
import { languageOf } from "../code/languages";
import { CopyButton } from "../components/CopyButton";
import { classes } from "../components/classes";
import surface from "../components/surface.module.css";
import { Tag } from "../components/Tag";
import { plural } from "../lib/format";
import { readPatch } from "../lib/patch";
import { DiffBody, type Layout } from "./DiffBody";
import styles from "./DiffFile.module.css";
import { DiffStat } from "./DiffStat";
import { useNear } from "./useNear";

/** Height of a line, to reserve the space of a file that is not rendered yet. */
const LINE = 20;

export interface DiffFileProps {
  file: ChangedFile;
  open: boolean;
  onToggle: () => void;
  layout: Layout;
  wrap: boolean;
  /** Id of the element, to scroll to. */
  id: string;
}

/** The changes of one file; rendered when it comes near the visible area. */
export function DiffFile({ file, open, onToggle, layout, wrap, id }: DiffFileProps) {
  const heading = useId();
  const frame = useRef<HTMLElement>(null);
  const near = useNear(frame);
  const Icon = open ? ChevronDown : ChevronRight;
  const height = (file.insertions + file.deletions + 8) * LINE;
  return (
    <section
      id={id}
      ref={frame}
      className={classes(surface.raised, styles.file)}
      aria-labelledby={heading}
      tabIndex={-1}
    >
      <header className={styles.head}>
        <h2 id={heading}>
          <button type="button" className={styles.toggle} aria-expanded={open} onClick={onToggle}>
            <Icon size={16} aria-hidden="true" />
            <span>{file.oldPath ? `${file.oldPath} → ${file.path}` : file.path}</span>
          </button>
        </h2>
        <div className={styles.facts}>
          {file.status !== "modified" && <Tag>{file.status}</Tag>}
          {file.binary && <Tag>binary</Tag>}
          {!file.binary && <DiffStat added={file.insertions} removed={file.deletions} />}
          <CopyButton text={file.path} label={`Copy the path ${file.path}`} />
        </div>
      </header>
      {open &&
        (near ? (
          <div className={styles.body} style={{ containIntrinsicBlockSize: `auto ${height}px` }}>
            <Content file={file} layout={layout} wrap={wrap} />
          </div>
        ) : (
          <div style={{ height }} />
        ))}
    </section>
  );
}

function Content({ file, layout, wrap }: Pick<DiffFileProps, "file" | "layout" | "wrap">) {
  const { hunks, modes } = useMemo(() => readPatch(file.binary ? "" : file.patch), [file]);
  return (
    <>
      {modes && <p className={styles.note}>Mode {modes}</p>}
      {file.binary && <p className={styles.note}>Binary or large file: no diff.</p>}
      {hunks.length > 0 ? (
        <DiffBody
          hunks={hunks}
          language={languageOf(file.path)}
          layout={layout}
          wrap={wrap}
          label={`Changes of ${file.path}`}
        />
      ) : (
        !file.binary && !file.cut && !modes && <p className={styles.note}>{unchanged(file)}</p>
      )}
      {file.cut && (
        <p className={styles.note}>
          The diff is too long to show in full: {plural(file.insertions + file.deletions, "changed line")}.
        </p>
      )}
    </>
  );
}

function unchanged({ status }: ChangedFile): string {
  if (status === "renamed") return "Renamed without changes.";
  return status === "modified" ? "No changed lines." : "An empty file.";
}
