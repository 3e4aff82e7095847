import { parse, stringify } from "yaml";
import type { Agent, CronTask, FieldProblem, Found, GenericObject, Identified, Task } from "../src/api/types";
import { isStopped } from "../src/lib/phase";
import { parseDuration } from "../src/lib/time";
import { upcoming } from "./cron";
import { ApiFailure } from "./responses";
import type { Spec, Store } from "./store";

interface Manifest {
  kind?: string;
  metadata?: {
    name?: string;
    namespace?: string;
    generateName?: string;
    resourceVersion?: string;
    labels?: Record<string, string>;
  };
  spec?: Spec;
  name?: string;
}

const KINDS: Record<string, { kind: string; listKey: string }> = {
  tasks: { kind: "Task", listKey: "tasks" },
  crontasks: { kind: "CronTask", listKey: "cronTasks" },
  agents: { kind: "Agent", listKey: "agents" },
  agenttemplates: { kind: "AgentTemplate", listKey: "agentTemplates" },
  registries: { kind: "Registry", listKey: "registries" },
  modelproviders: { kind: "ModelProvider", listKey: "items" },
  models: { kind: "Model", listKey: "items" },
  instructions: { kind: "Instruction", listKey: "items" },
  remotemcpservers: { kind: "RemoteMCPServer", listKey: "items" },
  mcpservers: { kind: "MCPServer", listKey: "items" },
  agenttools: { kind: "AgentTool", listKey: "items" },
  agentworkflows: { kind: "AgentWorkflow", listKey: "items" },
};

export function kindOf(plural: string): { kind: string; listKey: string } {
  const found = KINDS[plural];
  if (!found) throw new ApiFailure(404, "NotFound", `There is no kind '${plural}'`);
  return found;
}

/** A list response: filtered, sorted and paged. */
export function listOf(store: Store, plural: string, namespace: string | undefined, query: URLSearchParams): unknown {
  const { kind, listKey } = kindOf(plural);
  const wanted = (name: string) => query.get(name) ?? "";
  let items = store.list<Task & Agent>(kind, namespace);
  const keep = (test: (item: Task & Agent) => boolean) => {
    items = items.filter(test);
  };
  if (wanted("name")) keep((item) => item.name.includes(wanted("name").toLowerCase()));
  if (wanted("phase"))
    keep((item) =>
      wanted("phase")
        .split(",")
        .includes(item.phase ?? "Pending"),
    );
  if (wanted("agent")) keep((item) => item.agentRef?.name === wanted("agent"));
  if (wanted("template")) keep((item) => item.templateRef?.name === wanted("template"));
  if (wanted("crontask")) keep((item) => item.cronTask === wanted("crontask"));
  if (wanted("reason")) keep((item) => item.reason === wanted("reason"));
  if (wanted("stopped")) keep((item) => isStopped(item) === (wanted("stopped") === "true"));
  if (wanted("search")) {
    const text = wanted("search").toLowerCase();
    keep((item) => item.name.includes(text) || (item.title ?? "").toLowerCase().includes(text));
  }
  if (wanted("labelSelector")) {
    const terms = wanted("labelSelector")
      .split(",")
      .map((term) => term.split("="));
    keep((item) =>
      terms.every(([key = "", value]) =>
        value === undefined ? key in (item.labels ?? {}) : item.labels?.[key] === value,
      ),
    );
  }
  const by = wanted("sortBy") || "createdAt";
  const sortKey = (item: Task & Agent): string | number =>
    by === "name"
      ? item.name
      : by === "phase"
        ? (item.phase ?? "")
        : by === "duration"
          ? (item.durationSeconds ?? 0)
          : (item.createdAt ?? "");
  const direction = wanted("sortOrder") === "asc" ? 1 : -1;
  items.sort((a, b) => (sortKey(a) < sortKey(b) ? -direction : sortKey(a) > sortKey(b) ? direction : 0));
  const limit = Math.min(500, Number(wanted("limit") || 20));
  const offset = Number(wanted("offset") || 0);
  return {
    [listKey]: items.slice(offset, offset + limit),
    total: items.length,
    pagination: { limit, offset, totalCount: items.length, hasMore: offset + limit < items.length },
  };
}

/** Objects whose name or title contains a text. */
export function searched(store: Store, text: string): Found[] {
  const wanted = text.trim().toLowerCase();
  return Object.values(KINDS)
    .flatMap(({ kind }) => store.list<Task>(kind).map((object) => ({ kind, object })))
    .filter(({ object }) => object.name.includes(wanted) || (object.title ?? "").toLowerCase().includes(wanted))
    .slice(0, 20)
    .map(({ kind, object: { namespace, name, title } }) => ({ kind, namespace, name, title }));
}

export function yamlOf(store: Store, plural: string, namespace: string, name: string): string {
  const stored = store.stored(kindOf(plural).kind, namespace, name);
  if (!stored) throw missing(plural, namespace, name);
  const { uid, resourceVersion, generation, labels, createdAt } = stored.view;
  return stringify({
    apiVersion: "kubeopencode.io/v1alpha1",
    kind: stored.kind,
    metadata: {
      name,
      namespace,
      uid,
      resourceVersion,
      generation,
      creationTimestamp: createdAt,
      ...(labels ? { labels } : {}),
    },
    spec: JSON.parse(JSON.stringify(stored.spec)) as unknown,
    status: { conditions: stored.view.conditions ?? [] },
  });
}

export function missing(plural: string, namespace: string, name: string): ApiFailure {
  return new ApiFailure(404, "NotFound", `${kindOf(plural).kind} '${name}' does not exist in namespace '${namespace}'`);
}

function problemsOf(
  store: Store,
  kind: string,
  namespace: string,
  spec: Spec,
  name: string | undefined,
): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const add = (field: string, message: string) => problems.push({ field, message });
  if (name !== undefined && !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name)) {
    add("metadata.name", "must be lowercase, digits and hyphens");
  }
  const task = (
    kind === "Task" ? spec : kind === "CronTask" ? (spec.taskTemplate as { spec?: Spec } | undefined)?.spec : undefined
  ) as
    | (Spec & {
        agentRef?: { name?: string };
        templateRef?: { name?: string };
        timeout?: string;
        contexts?: { type: string; text?: string; mountPath?: string; git?: { repository?: string } }[];
      })
    | undefined;
  if (task) {
    const at = kind === "Task" ? "spec" : "spec.taskTemplate.spec";
    if (!task.agentRef && !task.templateRef) add(`${at}.agentRef`, "either agentRef or templateRef must be specified");
    if (task.timeout !== undefined && parseDuration(String(task.timeout)) === undefined)
      add(`${at}.timeout`, "must be a duration such as 30m");
    if (task.templateRef?.name && !store.get("AgentTemplate", namespace, task.templateRef.name))
      add(`${at}.templateRef.name`, `AgentTemplate '${task.templateRef.name}' does not exist`);
    task.contexts?.forEach((context, i) => {
      if (context.type === "Text" && !context.text)
        add(`${at}.contexts[${i}].text`, "text is required when type is Text");
      if (context.type === "Git" && !context.git?.repository)
        add(`${at}.contexts[${i}].git`, "git is required when type is Git");
      if (context.type === "Git" && !context.mountPath)
        add(`${at}.contexts[${i}].mountPath`, "mountPath is required for Git context type");
    });
  }
  if (kind === "CronTask" && upcoming(String(spec.schedule ?? ""), "UTC", 1) === undefined)
    add("spec.schedule", "is no cron expression of five fields");
  return problems;
}

function viewOf(
  kind: string,
  namespace: string,
  name: string,
  spec: Spec,
  labels: Record<string, string> | undefined,
): Identified {
  const base = { name, namespace, labels, conditions: [] };
  switch (kind) {
    case "Task":
      return {
        ...base,
        ...(spec as Partial<Task>),
        phase: "Queued",
        reason: "AgentAtCapacity",
        message: "It waits for a free slot",
        queuePosition: 1,
        timings: { queuedAt: new Date().toISOString() },
      } as Task;
    case "CronTask":
      return {
        ...base,
        ...(spec as unknown as Partial<CronTask>),
        active: 0,
        totalExecutions: 0,
        taskTemplate: (spec.taskTemplate as { spec?: CronTask["taskTemplate"] } | undefined)?.spec,
      } as CronTask;
    case "Agent":
      return {
        ...base,
        ...(spec as Partial<Agent>),
        phase: "Pending",
        slots: { used: 0, total: spec.maxConcurrentTasks },
        queueLength: 0,
        serverStatus: { ready: false, port: 4096, serviceName: name },
      } as Agent;
    case "AgentTemplate":
    case "Registry":
      return { ...base, ...(spec as object) } as Identified;
    default:
      return { ...base, kind, spec, ready: true } as GenericObject;
  }
}

/** Parses a JSON or YAML body. */
export function readManifest(body: string, type: string): Manifest {
  let parsed: unknown;
  try {
    parsed = type.includes("yaml") ? parse(body) : JSON.parse(body);
  } catch {
    throw new ApiFailure(400, "BadRequest", "The body cannot be read");
  }
  if (parsed === null || typeof parsed !== "object")
    throw new ApiFailure(400, "BadRequest", "The body must be an object");
  return parsed as Manifest;
}

export function createObject(
  store: Store,
  plural: string,
  namespace: string,
  manifest: Manifest,
  dryRun: boolean,
): Identified {
  const { kind } = kindOf(plural);
  if (manifest.kind !== undefined && manifest.kind !== kind) {
    throw new ApiFailure(422, "Invalid", `kind must be ${kind}`, [{ field: "kind", message: `must be ${kind}` }]);
  }
  const spec = manifest.spec ?? {};
  const given = manifest.metadata?.name ?? manifest.name;
  const name =
    given ??
    (manifest.metadata?.generateName
      ? `${manifest.metadata.generateName}${Math.random().toString(36).slice(2, 7)}`
      : undefined);
  const problems = problemsOf(store, kind, namespace, spec, name);
  if (name === undefined) problems.unshift({ field: "metadata.name", message: "is required" });
  if (problems.length > 0 || name === undefined) {
    throw new ApiFailure(422, "Invalid", `${kind} is invalid: ${problems[0]?.message}`, problems);
  }
  if (store.get(kind, namespace, name)) {
    throw new ApiFailure(409, "AlreadyExists", `${kind} '${name}' exists already in namespace '${namespace}'`, [
      { field: "metadata.name", message: "exists already" },
    ]);
  }
  const view = viewOf(kind, namespace, name, spec, manifest.metadata?.labels);
  if (dryRun) return view;
  store.put(kind, view, spec);
  return store.get(kind, namespace, name) ?? view;
}

export function replaceObject(
  store: Store,
  plural: string,
  namespace: string,
  name: string,
  manifest: Manifest,
  dryRun: boolean,
): Identified {
  const { kind } = kindOf(plural);
  const previous = store.get<Task>(kind, namespace, name);
  if (!previous) throw missing(plural, namespace, name);
  const version = manifest.metadata?.resourceVersion;
  if (version !== undefined && version !== previous.resourceVersion) {
    throw new ApiFailure(409, "Conflict", `${kind} '${name}' was changed meanwhile: load it again`);
  }
  const spec = manifest.spec ?? {};
  if (
    kind === "Task" &&
    previous.runEpoch !== undefined &&
    stringify(spec) !== stringify(JSON.parse(JSON.stringify(store.stored(kind, namespace, name)?.spec)))
  ) {
    throw new ApiFailure(
      422,
      "Invalid",
      "spec cannot change once the Task was admitted: create a new Task, or run it again",
      [{ field: "spec", message: "cannot change once the Task was admitted" }],
    );
  }
  const problems = problemsOf(store, kind, namespace, spec, undefined);
  if (problems.length > 0) throw new ApiFailure(422, "Invalid", problems[0]?.message ?? "", problems);
  const view = {
    ...viewOf(kind, namespace, name, spec, manifest.metadata?.labels),
    ...previous,
    labels: manifest.metadata?.labels,
    ...("spec" in previous ? { spec } : {}),
  };
  if (!dryRun) store.put(kind, view, spec);
  return store.get(kind, namespace, name) ?? view;
}
