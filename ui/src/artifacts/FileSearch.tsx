import { useInfiniteQuery } from "@tanstack/react-query";
import { File, FileSymlink, Folder } from "lucide-react";
import { keys } from "../api/keys";
import { type ArtifactPlace, fetchFiles } from "../api/results";
import type { ArtifactFile } from "../api/types";
import { Button } from "../components/Button";
import { classes } from "../components/classes";
import { ErrorState } from "../components/ErrorState";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { bytes, plural } from "../lib/format";
import styles from "./FileSearch.module.css";

export interface FileSearchProps {
  place: ArtifactPlace;
  prefix: string;
  selected: string | undefined;
  onSelect: (file: ArtifactFile) => void;
}

/** The files whose path begins with a text, page by page. */
export function FileSearch({ place, prefix, selected, onSelect }: FileSearchProps) {
  const query = useInfiniteQuery({
    queryKey: [...keys.artifacts(place.namespace, place.task), "files", place.epoch, place.name, prefix],
    queryFn: ({ pageParam, signal }) => fetchFiles(place, { prefix, after: pageParam }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next,
    placeholderData: (before) => before,
    retry: false,
  });
  if (query.error) return <ErrorState small error={query.error} onRetry={() => query.refetch()} />;
  if (!query.data) {
    return (
      <div className={styles.waiting}>
        <SkeletonBlock lines={6} label="Searching the files" />
      </div>
    );
  }
  const files = query.data.pages.flatMap((page) => page.files);
  return (
    <div className={styles.found}>
      <p className={styles.count} role="status">
        {plural(query.data.pages[0]?.total ?? 0, "entry", "entries")}
      </p>
      <ul aria-label="Found files">
        {files.map((file) => {
          const Icon = file.kind === "link" ? FileSymlink : file.kind === "directory" ? Folder : File;
          return (
            <li key={file.path}>
              <button
                type="button"
                className={classes(styles.file, file.path === selected && styles.selected)}
                aria-current={file.path === selected || undefined}
                onClick={() => onSelect(file)}
              >
                <Icon size={14} aria-hidden="true" />
                <span className={styles.name}>{file.name}</span>
                <span className={styles.size}>{file.size !== undefined && bytes(file.size)}</span>
              </button>
            </li>
          );
        })}
      </ul>
      {query.hasNextPage && (
        <Button small busy={query.isFetchingNextPage} onClick={() => query.fetchNextPage()}>
          Show more
        </Button>
      )}
    </div>
  );
}
