import type { SessionMessage, SessionPart } from "../api/types";
import { type DiffLine, readUnified } from "./changes";

/** What one tool call did to one file. */
export interface FileChange {
  path: string;
  lines: DiffLine[];
}

/** All that was done to one file, in order. */
export interface ChangedFile {
  path: string;
  changes: DiffLine[][];
  added: number;
  removed: number;
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/**
 * What a tool call changed; nothing for tools that change no file. A patch names its files one by one, an edit brings a
 * difference, and a new file brings only its content.
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

/** The files that a session changed, in the order in which it came to them. */
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
