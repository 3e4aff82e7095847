import { parseDuration } from "../lib/time";
import type { Manifest } from "./manifest";

/** Fields of an Agent or a template that the form shows. */
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
  if (manifest.text(["metadata", "name"]) === "") problems.name = "Give it a name.";
  const idle = manifest.text(["spec", "standby", "idleTimeout"]);
  if (idle !== "" && parseDuration(idle) === undefined) {
    problems.standby = "Write a duration such as 30m or 2h.";
  }
  return problems;
}
