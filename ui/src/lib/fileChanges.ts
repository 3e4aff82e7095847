import type { SessionMessage, SessionPart } from "../api/types";
import { type DiffLine, readUnified } from "./changes";

/** The change of one file by one tool call. */
export interface FileChange {
  path: string;
  lines: DiffLine[];
}

/** All changes of one file, in order. */
export interface ChangedFile {
  path: string;
  changes: DiffLine[][];
  added: number;
  removed: number;
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/**
 * The changes of a tool call; empty for tools that do not change files. A patch lists its files, an edit contains a
 * diff, and a new file contains only its content.
 */
export function changesOfCall(part: SessionPart): FileChange[] {
  const { input = {}, metadata = {}, status, title = "" } = part.state ?? {};
  if (part.type !== "tool" || status !== "completed") return [];
  const path = text(input.filePath) ?? text(input.path) ?? title;
  if (Array.isArray(metadata.files)) {
    return metadata.files.flatMap((file: Record<string, unknown>) => {
      const diff = text(file?.diff) ?? text(file?.patch);
      return diff ? [{ path: text(file.relativePath) ?? text(file.filePath) ?? path, lines: readUnified(diff) }] : [];
    });
  }
  if (metadata.diff) return [{ path, lines: readUnified(metadata.diff) }];
  const content = text(input.content);
  if (part.tool !== "write" || content === undefined) return [];
  return [{ path, lines: newLines(content) }];
}

function newLines(content: string): DiffLine[] {
  return content
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => ({ kind: "added", text: line }));
}

/** The files changed by a session, in order of the first change. */
export function changedFiles(messages: SessionMessage[]): ChangedFile[] {
  const files = new Map<string, ChangedFile>();
  for (const { path, lines } of messages.flatMap((message) => message.parts.flatMap(changesOfCall))) {
    const file = files.get(path) ?? { path, changes: [], added: 0, removed: 0 };
    file.changes.push(lines);
    file.added += lines.filter((line) => line.kind === "added").length;
    file.removed += lines.filter((line) => line.kind === "removed").length;
    files.set(path, file);
  }
  return [...files.values()];
}
