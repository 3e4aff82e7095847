import type { ChangedFile } from "../api/types";

/** Files with more changed lines are collapsed at first. */
export const MANY_LINES = 400;

/** Files that programs write. */
const GENERATED =
  /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|Cargo\.lock|go\.sum|poetry\.lock|uv\.lock|composer\.lock|Gemfile\.lock|.*\.min\.(?:js|css)|.*\.map|.*\.snap)$/;

/** Whether a file is collapsed until a person opens it: large, deleted and generated ones. */
export function isCollapsed({ path, status, insertions, deletions, binary }: ChangedFile): boolean {
  return !binary && (insertions + deletions > MANY_LINES || status === "deleted" || GENERATED.test(path));
}
