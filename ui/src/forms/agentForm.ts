import { parseDuration } from "../lib/time";
import type { Manifest } from "./manifest";

/** Visible form fields of an Agent or a template. */
export const SHOWN_AGENT_FIELDS = [
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

export function precheckAgent(manifest: Manifest): Record<string, string> {
  const problems: Record<string, string> = {};
  if (manifest.text(["metadata", "name"]) === "") problems.name = "Name is required.";
  const idle = manifest.text(["spec", "standby", "idleTimeout"]);
  if (idle !== "" && parseDuration(idle) === undefined) {
    problems.standby = "Invalid duration. Example: 30m or 2h.";
  }
  return problems;
}
