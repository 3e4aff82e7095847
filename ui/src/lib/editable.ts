import { parseDocument } from "yaml";

/** Fields of `metadata` that the server writes. */
const OF_THE_SERVER = [
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "managedFields",
  "selfLink",
  "ownerReferences",
  "finalizers",
];

/** The part of an object that users edit: without its status and without the fields that the server writes. */
export function editable(whole: string): string {
  const document = parseDocument(whole);
  document.delete("status");
  for (const field of OF_THE_SERVER) document.deleteIn(["metadata", field]);
  return document.toString({ lineWidth: 0 });
}

/** An edited object with the version that it replaces, so that a concurrent change is a conflict. */
export function withVersionOf(whole: string, edited: string): string {
  const version: unknown = parseDocument(whole).getIn(["metadata", "resourceVersion"]);
  const document = parseDocument(edited);
  if (version === undefined || !document.has("metadata")) return edited;
  document.setIn(["metadata", "resourceVersion"], String(version));
  return document.toString({ lineWidth: 0 });
}
