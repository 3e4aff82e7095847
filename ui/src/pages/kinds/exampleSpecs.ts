import type { Json } from "../../forms/manifest";

/** Minimal example specs of the kinds without a form; only the names need to be adapted. */
export const STARTS: Record<string, Json> = {
  AgentWorkflow: { steps: [{ name: "first", task: { agentRef: { name: "my-agent" }, description: "What to do" } }] },
};
