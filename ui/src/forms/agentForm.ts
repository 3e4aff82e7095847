import { parseDuration } from "../lib/time";
import { agentSections } from "./agentSections";
import { shownFields } from "./fieldSpecs";
import type { Manifest } from "./manifest";
import { shownContextFields } from "./taskForm";

const FIXED_FIELDS = [
  "name",
  "namespace",
  "profile",
  "templateRef",
  "modelRef",
  "executorImage",
  "agentImage",
  "workspaceDir",
  "serviceAccountName",
  "maxConcurrentTasks",
  "standby",
  "persistence.sessions.size",
  "persistence.workspace.size",
  "persistence",
  "port",
  "skills",
  "plugins",
];

/** Visible form fields of an Agent or a template. */
export function shownAgentFields(manifest: Manifest): string[] {
  return [...FIXED_FIELDS, ...shownFields(agentSections(true), manifest), ...shownContextFields(manifest, ["spec"])];
}

export function precheckAgent(manifest: Manifest): Record<string, string> {
  const problems: Record<string, string> = {};
  if (manifest.text(["metadata", "name"]) === "") problems.name = "Name is required.";
  for (const field of ["approval.timeout", "budget.window"]) {
    const value = manifest.text(["spec", ...field.split(".")]);
    if (value !== "" && parseDuration(value) === undefined) problems[field] = "Invalid duration. Example: 30m or 2h.";
  }
  const idle = manifest.text(["spec", "standby", "idleTimeout"]);
  if (idle !== "" && parseDuration(idle) === undefined) {
    problems.standby = "Invalid duration. Example: 30m or 2h.";
  }
  return problems;
}
