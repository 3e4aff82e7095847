import type { GenericObject } from "../../api/types";
import { valueAt } from "../../forms/manifest";

/** The one or two values that tell objects of a kind apart in a list. */
const TELLING: Record<string, string[][]> = {
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

export function tellingOf(object: GenericObject): string {
  return (TELLING[object.kind] ?? [])
    .map((path) => valueAt(object, path))
    .filter((value): value is string => typeof value === "string" && value !== "")
    .join(" · ");
}
