import { Download, FolderTree, PackageOpen } from "lucide-react";
import { type KeyboardEvent, useState } from "react";
import { type ArtifactPlace, archiveUrl } from "../api/results";
import type { Artifact, ArtifactFile } from "../api/types";
import { buttonClass } from "../components/Button";
import { Card } from "../components/Card";
import { EmptyState } from "../components/EmptyState";
import { ErrorState } from "../components/ErrorState";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { TextInput } from "../components/TextInput";
import { useDelayed } from "../lib/useDelayed";
import styles from "./ArtifactBrowser.module.css";
import { FilePreview } from "./FilePreview";
import { FileSearch } from "./FileSearch";
import { FileTree } from "./FileTree";
import { useFile } from "./useFile";
import { useTree } from "./useTree";

/** While a person types, the files are not searched. */
const PAUSE_MS = 250;

export interface ArtifactBrowserProps {
  place: ArtifactPlace;
  artifact: Artifact;
  /** Path of the shown file. */
  path: string | undefined;
  onPath: (path: string) => void;
}

/** The files of an artifact, and the content of one of them. */
export function ArtifactBrowser({ place, artifact, path, onPath }: ArtifactBrowserProps) {
  const tree = useTree(place, path);
  const [typed, setTyped] = useState("");
  const prefix = useDelayed(typed, PAUSE_MS);
  const [chosen, setChosen] = useState<ArtifactFile>();
  const select = (file: ArtifactFile) => {
    setChosen(file);
    onPath(file.path);
  };
  const first = tree.root.entries?.[0];
  const only = artifact.files === 1 && first?.kind === "entry" ? first.file : undefined;
  const known = chosen?.path === path ? chosen : undefined;
  const linked = useFile(place, known ? undefined : path);
  // The only file needs no choice.
  const file = known ?? linked.data ?? (path === undefined ? only : undefined);
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") setTyped("");
  };
  return (
    <Card
      title={artifact.name}
      flush
      tools={
        <a
          className={buttonClass("default", true)}
          href={archiveUrl(place)}
          download={`${place.task}-${place.name}.tar.zst`}
        >
          <Download size={14} />
          Download all (.tar.zst)
        </a>
      }
    >
      <div className={styles.browser}>
        <div className={styles.files}>
          <div className={styles.search}>
            <TextInput
              type="search"
              aria-label="Find files whose path begins with"
              placeholder="Path begins with…"
              data-filter=""
              value={typed}
              onValue={setTyped}
              onKeyDown={onKey}
            />
          </div>
          {prefix !== "" ? (
            <FileSearch place={place} prefix={prefix} selected={file?.path} onSelect={select} />
          ) : tree.root.error && !tree.root.entries ? (
            <ErrorState small error={tree.root.error} onRetry={() => tree.load("")} />
          ) : !tree.root.entries ? (
            <div className={styles.waiting}>
              <SkeletonBlock lines={8} label="Loading the files" />
            </div>
          ) : tree.rows.length === 0 ? (
            <EmptyState small title="No files" icon={<PackageOpen size={20} />}>
              The artifact is empty.
            </EmptyState>
          ) : (
            <FileTree tree={tree} label={`Files of ${artifact.name}`} selected={file?.path} onSelect={select} />
          )}
        </div>
        <div className={styles.content}>
          {file ? (
            <FilePreview key={file.path} place={place} file={file} />
          ) : linked.error ? (
            <ErrorState small error={linked.error} onRetry={() => linked.refetch()} />
          ) : linked.isFetching ? (
            <div className={styles.waiting}>
              <SkeletonBlock lines={8} label="Loading the file" />
            </div>
          ) : (
            <EmptyState small title="No file selected" icon={<FolderTree size={20} />}>
              Select a file to see its content.
            </EmptyState>
          )}
        </div>
      </div>
    </Card>
  );
}
