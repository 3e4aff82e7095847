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

/** Fields of a Task that the form shows, as a refusal names them. */
export function shownTaskFields(manifest: Manifest, at: Path): string[] {
  const contexts = valueAt(manifest.object, [...at, "contexts"]);
  const items = Array.isArray(contexts) ? contexts.length : 0;
  return [
    "name",
    "namespace",
    "description",
    "agentRef",
    "templateRef",
    "timeout",
    "priority",
    ...Array.from({ length: items }, (_, i) => CONTEXT_FIELDS.map((field) => `contexts.${i}${field}`)).flat(),
  ];
}

/** What can be told without the server. */
export function precheckTask(manifest: Manifest, at: Path): Record<string, string> {
  const problems: Record<string, string> = {};
  if (manifest.text([...at, "description"]).trim() === "") problems.description = "Say what to do.";
  if (
    !valueAt(manifest.object, [...at, "agentRef", "name"]) &&
    !valueAt(manifest.object, [...at, "templateRef", "name"])
  ) {
    problems.agentRef = "Choose who does it.";
  }
  const timeout = manifest.text([...at, "timeout"]);
  if (timeout !== "" && parseDuration(timeout) === undefined) {
    problems.timeout = "Write a duration such as 90s, 30m or 1h30m.";
  }
  return problems;
}
