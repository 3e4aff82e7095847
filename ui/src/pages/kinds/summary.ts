import type { GenericObject } from "../../api/types";
import { valueAt } from "../../forms/manifest";

/** Paths of the values that summarize an object in a list. */
const SUMMARY_PATHS: Record<string, string[][]> = {
  Model: [
    ["spec", "model"],
    ["spec", "providerRef", "name"],
  ],
  ModelProvider: [
    ["spec", "type"],
    ["spec", "baseURL"],
  ],
  Instruction: [["spec", "text"]],
  RemoteMCPServer: [
    ["spec", "url"],
    ["spec", "serviceRef", "name"],
  ],
  MCPServer: [["spec", "image"]],
  AgentTool: [["spec", "description"]],
  AgentWorkflow: [
    ["spec", "description"],
    ["status", "engine"],
  ],
};

export function summaryOf(object: GenericObject): string {
  return (SUMMARY_PATHS[object.kind] ?? [])
    .map((path) => valueAt(object, path))
    .filter((value): value is string => typeof value === "string" && value !== "")
    .join(" · ");
}
