import { parseDocument } from "yaml";

/** Fields that users do not edit: changes of these fields are no conflict. */
function written(text: string): string {
  const document = parseDocument(text);
  document.delete("status");
  for (const key of ["resourceVersion", "generation"]) document.deleteIn(["metadata", key]);
  return JSON.stringify(document.toJS());
}

/**
 * An edit of `base`, applied to `current`. Only possible if no user-edited field differs between them:
 * a changed status is no conflict, a changed spec is.
 */
export function rebase(base: string, current: string, edited: string): string | undefined {
  if (base === current) return edited;
  if (written(base) !== written(current)) return undefined;
  const version: unknown = parseDocument(current).getIn(["metadata", "resourceVersion"]);
  const document = parseDocument(edited);
  if (version === undefined || !document.hasIn(["metadata", "resourceVersion"])) return edited;
  document.setIn(["metadata", "resourceVersion"], String(version));
  return document.toString();
}
