import type { Page } from "./types";

/** Names, paths and pages of an API kind. */
export interface Kind {
  kind: string;
  plural: string;
  /** Key of the array in a list response. */
  listKey: string;
  /** Display name, singular and plural. */
  one: string;
  many: string;
  /** Path of the list page. */
  list: string;
  /** Path of the detail page, without namespace and name. */
  detail: string;
  /** Whether the generic YAML pages show the kind. */
  generic: boolean;
  about: string;
}

function own(kind: string, plural: string, listKey: string, many: string, route: string, about: string): Kind {
  return { kind, plural, listKey, one: kind, many, list: route, detail: route, generic: false, about };
}

function generic(kind: string, plural: string, many: string, list: string, about: string): Kind {
  return { kind, plural, listKey: "items", one: kind, many, list, detail: `/kinds/${plural}`, generic: true, about };
}

export const TASK = own("Task", "tasks", "tasks", "Tasks", "/tasks", "A unit of work for an agent.");
export const CRON_TASK = own("CronTask", "crontasks", "cronTasks", "CronTasks", "/crontasks", "Tasks on a schedule.");
export const AGENT = own(
  "Agent",
  "agents",
  "agents",
  "Agents",
  "/agents",
  "A long-running coding agent that executes Tasks.",
);
export const AGENT_TEMPLATE = own(
  "AgentTemplate",
  "agenttemplates",
  "agentTemplates",
  "Templates",
  "/templates",
  "Shared settings for Agents and Tasks.",
);
export const REGISTRY = own(
  "Registry",
  "registries",
  "registries",
  "Registries",
  "/registries",
  "A catalogue of images, skills and plugins.",
);

export const MODEL = generic(
  "Model",
  "models",
  "Models",
  "/models",
  "A model on a provider, with its limits and price.",
);
export const MODEL_PROVIDER = generic(
  "ModelProvider",
  "modelproviders",
  "Providers",
  "/providers",
  "A model endpoint and its credentials.",
);
export const INSTRUCTION = generic(
  "Instruction",
  "instructions",
  "Instructions",
  "/instructions",
  "Reusable instructions for Agents and Tasks.",
);
export const REMOTE_MCP_SERVER = generic(
  "RemoteMCPServer",
  "remotemcpservers",
  "Remote MCP servers",
  "/tools",
  "A remote MCP endpoint that provides tools.",
);
export const MCP_SERVER = generic(
  "MCPServer",
  "mcpservers",
  "MCP servers",
  "/tools",
  "An MCP server that runs in the cluster.",
);
export const AGENT_TOOL = generic("AgentTool", "agenttools", "HTTP tools", "/tools", "An HTTP API exposed as tools.");
export const AGENT_WORKFLOW = generic(
  "AgentWorkflow",
  "agentworkflows",
  "Workflows",
  "/workflows",
  "Steps that run in sequence or in parallel.",
);

export const KINDS: Kind[] = [
  TASK,
  CRON_TASK,
  AGENT,
  AGENT_TEMPLATE,
  REGISTRY,
  MODEL,
  MODEL_PROVIDER,
  INSTRUCTION,
  REMOTE_MCP_SERVER,
  MCP_SERVER,
  AGENT_TOOL,
  AGENT_WORKFLOW,
];

export function kindNamed(kind: string): Kind | undefined {
  return KINDS.find((k) => k.kind === kind);
}

export function kindOfPlural(plural: string): Kind | undefined {
  return KINDS.find((k) => k.plural === plural);
}

/** Path of the page of an object; `undefined` for kinds without a page (ConfigMaps). */
export function pageOf(kind: string, namespace: string | undefined, name: string): string | undefined {
  if (kind === "KubeOpenCodeConfig") return "/config";
  const known = kind === "Secret" ? { detail: "/secrets" } : kindNamed(kind);
  if (!known || !namespace) return undefined;
  return `${known.detail}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

/** Parses a list response. */
export function pageFrom<T>(kind: Kind, body: Record<string, unknown>): Page<T> {
  const items = (body[kind.listKey] ?? []) as T[];
  return { items, total: typeof body.total === "number" ? body.total : items.length };
}
