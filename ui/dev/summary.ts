import type { Agent, CronTask, Graph, Summary, Task } from "../src/api/types";
import { isFinished, isStopped } from "../src/lib/phase";
import { blockedBy, nextRun } from "../src/pages/crontasks/cronStatus";
import type { Store } from "./store";

const HOUR = 3_600_000;

function countBy(tasks: Task[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { reason = "Unknown" } of tasks) counts[reason] = (counts[reason] ?? 0) + 1;
  return counts;
}

export function summaryOf(store: Store, namespace: string, buckets: "hour" | "day"): Summary {
  const tasks = store.list<Task>("Task", namespace);
  const agents = store.list<Agent>("Agent", namespace);
  const crons = store.list<CronTask>("CronTask", namespace);
  const now = Date.now();
  const ended = (task: Task) => Date.parse(task.completionTime ?? "");
  const recent = (hours: number) => tasks.filter((task) => now - ended(task) < hours * HOUR);
  const size = buckets === "hour" ? HOUR : 24 * HOUR;
  const number = buckets === "hour" ? 24 : 30;
  const first = Math.floor(now / size) * size - (number - 1) * size;
  const points = Array.from({ length: number }, (_, i) => {
    const start = first + i * size;
    const inside = tasks.filter((task) => ended(task) >= start && ended(task) < start + size);
    return {
      start: new Date(start).toISOString(),
      tokens: inside.reduce(
        (sum, task) => sum + (task.usage?.tokens?.input ?? 0) + (task.usage?.tokens?.output ?? 0),
        0,
      ),
      cost: inside.reduce((sum, task) => sum + Number(task.usage?.cost ?? 0), 0).toFixed(6),
      completed: inside.filter((task) => task.phase === "Completed" && !isStopped(task)).length,
      failed: inside.filter((task) => task.phase === "Failed").length,
      stopped: inside.filter(isStopped).length,
    };
  });
  const byPhase: Summary["tasks"]["byPhase"] = {};
  for (const { phase = "Pending" } of tasks) byPhase[phase] = (byPhase[phase] ?? 0) + 1;
  return {
    tasks: {
      total: tasks.length,
      byPhase,
      waitingByReason: countBy(tasks.filter((task) => task.phase === "Queued")),
      failedByReason24h: countBy(recent(24).filter((task) => task.phase === "Failed")),
      failedByReason7d: countBy(recent(168).filter((task) => task.phase === "Failed")),
      completed24h: recent(24).filter((task) => task.phase === "Completed" && !isStopped(task)).length,
      stopped24h: recent(24).filter(isStopped).length,
      failed24h: recent(24).filter((task) => task.phase === "Failed").length,
      awaitingApproval: tasks.filter((task) => task.awaitingApproval).length,
    },
    usage: {
      tokens: { input: points.reduce((sum, point) => sum + point.tokens, 0), output: 0, reasoning: 0, cache: 0 },
      cost: points.reduce((sum, point) => sum + Number(point.cost), 0).toFixed(6),
      buckets: points,
    },
    agents: {
      total: agents.length,
      ready: agents.filter((agent) => agent.serverStatus?.ready).length,
      suspended: agents.filter((agent) => agent.phase === "Suspended").length,
      items: agents.map((agent) => ({
        namespace: agent.namespace,
        name: agent.name,
        phase: agent.phase,
        ready: agent.serverStatus?.ready,
        slots: agent.slots,
        queueLength: agent.queueLength,
      })),
    },
    cronTasks: {
      total: crons.length,
      suspended: crons.filter((cron) => cron.suspend).length,
      blocked: crons.filter((cron) => blockedBy(cron)).length,
      next: crons.flatMap((cron) =>
        nextRun(cron) ? [{ namespace: cron.namespace, name: cron.name, at: nextRun(cron) ?? "" }] : [],
      ),
    },
    recent: tasks.sort((a, b) => (b.createdAt ?? "").localeCompare(a.createdAt ?? "")).slice(0, 10),
  };
}

export function graphOf(store: Store, namespace: string): Graph {
  const nodes: Graph["nodes"] = [];
  const edges: Graph["edges"] = [];
  const add = (kind: string, ns: string, name: string, part: object = {}) => {
    const id = `${kind}/${ns}/${name}`;
    if (!nodes.some((node) => node.id === id)) nodes.push({ id, kind, namespace: ns, name, exists: true, ...part });
    return id;
  };
  const link = (from: string, to: string, label: string) => edges.push({ from, to, label });
  for (const kind of ["ModelProvider", "Model"]) {
    for (const object of store.list(kind, namespace)) {
      const { spec = {}, ready } = object as { spec?: Record<string, { name?: string }>; ready?: boolean };
      const id = add(kind, object.namespace, object.name, { ready });
      if (spec.apiKeySecretRef?.name)
        link(add("Secret", object.namespace, spec.apiKeySecretRef.name), id, "apiKeySecretRef");
      if (spec.providerRef?.name)
        link(add("ModelProvider", object.namespace, spec.providerRef.name), id, "providerRef");
    }
  }
  for (const agent of store.list<Agent>("Agent", namespace)) {
    const id = add("Agent", agent.namespace, agent.name, { ready: agent.serverStatus?.ready, detail: agent.profile });
    const model = agent.name === "data-pipelines" ? "gpt" : "sonnet";
    const known = store.get("Model", agent.namespace, model);
    link(add("Model", agent.namespace, model, known ? { ready: true } : { exists: false }), id, "modelRef");
    if (agent.templateRef)
      link(add("AgentTemplate", agent.namespace, agent.templateRef.name, { ready: true }), id, "templateRef");
    for (const tool of agent.tools ?? [])
      link(add(tool.ref.kind ?? "AgentTool", agent.namespace, tool.ref.name, { ready: true }), id, "tools");
    const tasks = store.list<Task>("Task", agent.namespace).filter((task) => task.agentRef?.name === agent.name);
    for (const task of tasks.filter((entry) => !isFinished(entry.phase))) {
      link(id, add("Task", task.namespace, task.name, { detail: task.phase }), "agentRef");
    }
    const finished = tasks.filter((entry) => isFinished(entry.phase)).length;
    if (finished > 0) {
      nodes.push({
        id: `Tasks/${agent.namespace}/${agent.name}`,
        kind: "Tasks",
        namespace: agent.namespace,
        name: "finished",
        detail: `${finished} finished`,
      });
      link(id, `Tasks/${agent.namespace}/${agent.name}`, "agentRef");
    }
  }
  for (const cron of store.list<CronTask>("CronTask", namespace)) {
    const name = cron.taskTemplate?.agentRef?.name;
    const exists = name !== undefined && store.get("Agent", cron.namespace, name) !== undefined;
    if (name)
      link(
        add("Agent", cron.namespace, name, exists ? {} : { exists: false }),
        add("CronTask", cron.namespace, cron.name, { ready: !cron.suspend }),
        "agentRef",
      );
  }
  return { nodes, edges, truncated: false };
}
