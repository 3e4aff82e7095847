import { gitUrlProblem } from "../lib/gitUrl";
import { parseDuration } from "../lib/time";
import { type Manifest, type Path, valueAt } from "./manifest";

const CONTEXT_FIELDS = [
  "",
  ".name",
  ".type",
  ".mountPath",
  ".text",
  ".configMap",
  ".configMap.name",
  ".configMap.key",
  ".git",
  ".git.repository",
  ".git.ref",
  ".git.path",
  ".url",
  ".url.source",
];

/** Visible fields of the contexts of a spec. */
export function shownContextFields(manifest: Manifest, at: Path): string[] {
  const contexts = valueAt(manifest.object, [...at, "contexts"]);
  const items = Array.isArray(contexts) ? contexts.length : 0;
  return Array.from({ length: items }, (_, i) => CONTEXT_FIELDS.map((field) => `contexts.${i}${field}`)).flat();
}

/** Visible form fields of a Task, as named in validation errors. */
export function shownTaskFields(manifest: Manifest, at: Path): string[] {
  return [
    "name",
    "namespace",
    "description",
    "agentRef",
    "templateRef",
    "timeout",
    "priority",
    ...shownContextFields(manifest, at),
  ];
}

/** Client-side validation. */
export function precheckTask(manifest: Manifest, at: Path): Record<string, string> {
  const problems: Record<string, string> = {};
  if (manifest.text([...at, "description"]).trim() === "") problems.description = "Description is required.";
  if (
    !valueAt(manifest.object, [...at, "agentRef", "name"]) &&
    !valueAt(manifest.object, [...at, "templateRef", "name"])
  ) {
    problems.agentRef = "Select an Agent or a template.";
  }
  const contexts = valueAt(manifest.object, [...at, "contexts"]);
  for (const [i] of (Array.isArray(contexts) ? contexts : []).entries()) {
    const problem = gitUrlProblem(manifest.text([...at, "contexts", i, "git", "repository"]));
    if (problem) problems[`contexts.${i}.git.repository`] = problem;
  }
  const timeout = manifest.text([...at, "timeout"]);
  if (timeout !== "" && parseDuration(timeout) === undefined) {
    problems.timeout = "Invalid duration. Example: 90s, 30m or 1h30m.";
  }
  return problems;
}
