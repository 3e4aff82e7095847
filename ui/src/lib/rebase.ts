import { parseDocument } from "yaml";

/** What a person does not write: a change of these alone is no conflict with an edit. */
function written(text: string): string {
  const document = parseDocument(text);
  document.delete("status");
  for (const key of ["resourceVersion", "generation"]) document.deleteIn(["metadata", key]);
  return JSON.stringify(document.toJS());
}

/**
 * An edit of `base`, moved onto `current`. Only possible when nothing that a person writes has changed between them:
 * a status that was updated meanwhile must not cost an edit, a changed spec must.
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
