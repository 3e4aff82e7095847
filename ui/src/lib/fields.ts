import { ApiError } from "../api/error";

/** Validation errors by field path, and errors without a field. */
export interface Problems {
  byField: Record<string, string>;
  other: string[];
}

export const NO_PROBLEMS: Problems = { byField: {}, other: [] };

/** `spec.contexts[0].text`, `contexts/0/text` and `contexts.0.text` are the same field. */
export function normalField(path: string): string {
  return path
    .replace(/^\$?\.?/, "")
    .replace(/^spec\./, "")
    .replace(/^taskTemplate\.spec\./, "")
    .replace(/^metadata\.name$/, "name")
    .replace(/\[(\d+)\]/g, ".$1")
    .replaceAll("/", ".");
}

/**
 * Assigns validation errors to visible fields. An error of a hidden field is assigned
 * to the nearest visible parent (`agentRef.name` to `agentRef`), or to the top of the form with the field name.
 */
export function problemsOf(error: unknown, shown: Iterable<string>): Problems {
  if (!(error instanceof ApiError)) {
    return { byField: {}, other: [error instanceof Error ? error.message : String(error)] };
  }
  const known = new Set(shown);
  const problems: Problems = { byField: {}, other: [] };
  for (const { field, message } of error.fields) {
    let at = normalField(field);
    while (at !== "" && !known.has(at)) at = at.slice(0, Math.max(0, at.lastIndexOf(".")));
    if (at === "") problems.other.push(`${field}: ${message}`);
    else problems.byField[at] = message;
  }
  if (error.fields.length === 0) problems.other.push(error.message);
  return problems;
}
