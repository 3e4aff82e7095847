import type { Page } from "./types";

/** What the page knows about a kind of the API: how it is called in paths, in lists and to a person. */
export interface Kind {
  kind: string;
  plural: string;
  /** Key of the array in a list answer. */
  listKey: string;
  /** What a person reads for one, and for many. */
  one: string;
  many: string;
  /** Where its list is shown. */
  list: string;
  /** Where one object is shown, without namespace and name. */
  detail: string;
  /** Whether the generic pages (YAML) show it. */
  generic: boolean;
  about: string;
}

function own(kind: string, plural: string, listKey: string, many: string, route: string, about: string): Kind {
  return { kind, plural, listKey, one: kind, many, list: route, detail: route, generic: false, about };
}

function generic(kind: string, plural: string, many: string, list: string, about: string): Kind {
  return { kind, plural, listKey: "items", one: kind, many, list, detail: `/kinds/${plural}`, generic: true, about };
}

export const TASK = own("Task", "tasks", "tasks", "Tasks", "/tasks", "One piece of work for an agent.");
export const CRON_TASK = own("CronTask", "crontasks", "cronTasks", "CronTasks", "/crontasks", "Tasks on a schedule.");
export const AGENT = own("Agent", "agents", "agents", "Agents", "/agents", "A coding agent that stays up for Tasks.");
export const AGENT_TEMPLATE = own(
  "AgentTemplate",
  "agenttemplates",
  "agentTemplates",
  "Templates",
  "/templates",
  "Settings that Agents and Tasks share.",
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
  "An endpoint for models and the credential for it.",
);
export const INSTRUCTION = generic(
  "Instruction",
  "instructions",
  "Instructions",
  "/instructions",
  "Text that Agents and Tasks follow, written once.",
);
export const REMOTE_MCP_SERVER = generic(
  "RemoteMCPServer",
  "remotemcpservers",
  "Remote MCP servers",
  "/tools",
  "An MCP endpoint whose tools agents may use.",
);
export const MCP_SERVER = generic("MCPServer", "mcpservers", "MCP servers", "/tools", "An MCP server that runs here.");
export const AGENT_TOOL = generic("AgentTool", "agenttools", "HTTP tools", "/tools", "An HTTP API as tools.");
export const AGENT_WORKFLOW = generic(
  "AgentWorkflow",
  "agentworkflows",
  "Workflows",
  "/workflows",
  "Steps that run one after another or side by side.",
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

/** Address of the page that shows an object; none for kinds that have no page (Secrets, ConfigMaps). */
export function pageOf(kind: string, namespace: string | undefined, name: string): string | undefined {
  if (kind === "KubeOpenCodeConfig") return "/config";
  const known = kindNamed(kind);
  if (!known || !namespace) return undefined;
  return `${known.detail}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

/** Reads a list answer, whatever the key of its array. */
export function pageFrom<T>(kind: Kind, body: Record<string, unknown>): Page<T> {
  const items = (body[kind.listKey] ?? []) as T[];
  return { items, total: typeof body.total === "number" ? body.total : items.length };
}
