import { ChevronDown, ChevronRight, File, FileSymlink, Folder, FolderOpen } from "lucide-react";
import { type KeyboardEvent, useId, useState } from "react";
import type { ArtifactFile } from "../api/types";
import { classes } from "../components/classes";
import { bytes } from "../lib/format";
import styles from "./FileTree.module.css";
import type { Tree, TreeRow } from "./useTree";

export interface FileTreeProps {
  tree: Tree;
  label: string;
  /** Path of the shown file. */
  selected: string | undefined;
  onSelect: (file: ArtifactFile) => void;
}

const MORE = { more: "Show more", loading: "Loading…", failed: "Could not be loaded. Try again" };

/** The files of an artifact as a tree, with the keys of a tree view. */
export function FileTree({ tree, label, selected, onSelect }: FileTreeProps) {
  const { rows } = tree;
  const base = useId();
  const [chosen, setChosen] = useState<{ key: string | undefined; index: number }>({ key: selected, index: 0 });
  const byKey = rows.findIndex((row) => row.key === chosen.key);
  const active = byKey >= 0 ? byKey : Math.max(0, Math.min(chosen.index, rows.length - 1));
  const idOf = (index: number) => `${base}-${index}`;

  // The rest of a directory is replaced by its entries, the first of which gets its place.
  const activate = (row: TreeRow) =>
    setChosen({ key: row.kind === "item" ? row.key : undefined, index: rows.indexOf(row) });
  const act = (row: TreeRow) => {
    activate(row);
    if (row.kind !== "item") tree.load(row.prefix);
    else if (row.entry.kind === "directory") tree.toggle(row.entry.prefix, !row.open);
    else onSelect(row.entry.file);
  };
  const move = (to: number) => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, to))];
    if (!row) return;
    activate(row);
    document.getElementById(idOf(rows.indexOf(row)))?.scrollIntoView?.({ block: "nearest" });
  };
  const parentOf = (index: number) => {
    const depth = rows[index]?.depth ?? 0;
    for (let at = index - 1; at >= 0; at -= 1) if ((rows[at]?.depth ?? 0) < depth) return at;
    return index;
  };

  const onKey = (event: KeyboardEvent) => {
    const row = rows[active];
    if (!row || event.ctrlKey || event.altKey || event.metaKey) return;
    const directory = row.kind === "item" && row.entry.kind === "directory" ? row.entry : undefined;
    switch (event.key) {
      case "ArrowDown":
        move(active + 1);
        break;
      case "ArrowUp":
        move(active - 1);
        break;
      case "Home":
        move(0);
        break;
      case "End":
        move(rows.length - 1);
        break;
      case "ArrowRight":
        if (directory && row.kind === "item" && !row.open) tree.toggle(directory.prefix, true);
        else if (directory && rows[active + 1]?.kind === "item") move(active + 1);
        break;
      case "ArrowLeft":
        if (directory && row.kind === "item" && row.open) tree.toggle(directory.prefix, false);
        else move(parentOf(active));
        break;
      case "Enter":
      case " ":
        act(row);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div
      className={styles.tree}
      role="tree"
      aria-label={label}
      // The rows are not focused themselves: they come and go as directories are loaded.
      tabIndex={0}
      aria-activedescendant={rows.length > 0 ? idOf(active) : undefined}
      onKeyDown={onKey}
    >
      {rows.map((row, index) => {
        const isDirectory = row.kind === "item" && row.entry.kind === "directory";
        const isSelected = row.kind === "item" && row.entry.kind === "entry" && row.key === selected;
        return (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys.
          // biome-ignore lint/a11y/useFocusableInteractive: the tree has the focus.
          <div
            key={row.key}
            id={idOf(index)}
            role="treeitem"
            aria-level={row.depth + 1}
            aria-expanded={isDirectory ? row.kind === "item" && row.open : undefined}
            aria-selected={isSelected}
            className={classes(styles.row, index === active && styles.active, isSelected && styles.selected)}
            style={{ paddingLeft: 8 + row.depth * 16 }}
            onClick={() => act(row)}
          >
            {row.kind === "item" ? <Item row={row} /> : <span className={styles.more}>{MORE[row.kind]}</span>}
          </div>
        );
      })}
    </div>
  );
}

function Item({ row: { entry, open } }: { row: Extract<TreeRow, { kind: "item" }> }) {
  if (entry.kind === "directory") {
    const Chevron = open ? ChevronDown : ChevronRight;
    const Icon = open ? FolderOpen : Folder;
    return (
      <>
        <Chevron size={14} aria-hidden="true" />
        <Icon size={14} aria-hidden="true" className={styles.folder} />
        <span className={styles.name} title={entry.name}>
          {entry.name}
        </span>
      </>
    );
  }
  const { kind, size, target } = entry.file;
  const Icon = kind === "link" ? FileSymlink : kind === "directory" ? Folder : File;
  return (
    <>
      <span className={styles.space} />
      <Icon size={14} aria-hidden="true" />
      <span className={styles.name} title={target === undefined ? entry.name : `${entry.name} → ${target}`}>
        {entry.name}
        {target !== undefined && <span className="quiet"> → {target}</span>}
      </span>
      <span className={styles.size}>{kind === "directory" ? "empty" : size !== undefined && bytes(size)}</span>
    </>
  );
}
