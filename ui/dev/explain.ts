import type { Agent, AgentExplain, Explain, Setting, Task } from "../src/api/types";
import type { Store } from "./store";

function settings(prefix: string): Setting[] {
  return [
    {
      path: `${prefix}executorImage`,
      value: "quay.io/kubeopencode/executor-node:22",
      origin: { from: "Template", name: "node" },
      originText: "AgentTemplate 'node'",
    },
    { path: `${prefix}workspaceDir`, value: "/workspace", origin: { from: "BuiltIn" }, originText: "built-in default" },
    {
      path: `${prefix}serviceAccountName`,
      value: "agent",
      origin: { from: "Template", name: "node" },
      originText: "AgentTemplate 'node'",
    },
    {
      path: `${prefix}maxConcurrentTasks`,
      value: 2,
      origin: { from: "Agent", name: "web-dev" },
      originText: "Agent 'web-dev'",
    },
    {
      path: `${prefix}modelRef`,
      value: { name: "sonnet" },
      origin: { from: "Agent", name: "web-dev" },
      originText: "Agent 'web-dev'",
    },
    {
      path: `${prefix}proxy`,
      value: { httpsProxy: "http://proxy.example.com:3128" },
      origin: { from: "Config", name: "cluster" },
      originText: "KubeOpenCodeConfig 'cluster'",
    },
    { path: `${prefix}stallTimeout`, value: "15m", origin: { from: "BuiltIn" }, originText: "built-in default" },
  ];
}

const inQueue = ({ name, phase, priority, createdAt, startTime }: Task) => ({
  name,
  phase,
  priority,
  createdAt,
  startTime,
});

export function explainTask(store: Store, task: Task): Explain {
  const agent = { kind: "Agent", namespace: task.namespace, name: task.agentRef?.name ?? "" };
  const base = {
    task: { namespace: task.namespace, name: task.name },
    phase: task.phase,
    reason: task.reason,
    message: task.message,
    dependencies: [],
  };
  if (task.phase === "Queued" && task.reason === "AgentAtCapacity") {
    const running = store
      .list<Task>("Task", task.namespace)
      .filter((other) => other.phase === "Running" && other.agentRef?.name === agent.name);
    const waiting = store
      .list<Task>("Task", task.namespace)
      .filter((other) => other.phase === "Queued" && other.agentRef?.name === agent.name);
    return {
      ...base,
      chain: [
        {
          level: "wait",
          reason: "Queued",
          message: `It waits for a free slot of Agent '${agent.name}'`,
          since: task.createdAt,
        },
        { level: "wait", reason: "AgentAtCapacity", message: task.message ?? "", object: agent },
        {
          level: "info",
          reason: "Running",
          message: `'${running.at(-1)?.name}' has been running for some minutes and waits for a permission`,
          object: { kind: "Task", namespace: task.namespace, name: running.at(-1)?.name ?? "" },
        },
      ],
      queue: {
        target: agent,
        position: task.queuePosition,
        waiting: waiting.length,
        running: running.length,
        maxConcurrentTasks: 2,
        ahead: running.map(inQueue),
      },
      quota: { maxTaskStarts: 20, windowSeconds: 3600, used: 7 },
      settings: settings("agent."),
      next: [
        "Answer the permission request of 'upgrade-postgres-driver'.",
        "Raise maxConcurrentTasks of Agent 'web-dev'.",
        "Give this Task a higher priority.",
      ],
    };
  }
  if (task.phase === "Queued") {
    return {
      ...base,
      chain: [{ level: "error", reason: task.reason, message: task.message ?? "", since: task.createdAt }],
      settings: [],
      settingsError: "Agent 'analyst' does not exist in namespace 'platform'",
      next: ["Create the Agent 'analyst'.", "Change agentRef of the Task: it may be corrected while it waits."],
    };
  }
  if (task.phase === "Failed") {
    return {
      ...base,
      chain: [
        { level: "error", reason: task.reason, message: task.message ?? "", since: task.completionTime },
        {
          level: "info",
          reason: "SessionError",
          message: "The last message of the session has an error",
          since: task.completionTime,
        },
      ],
      settings: settings("agent."),
      next: ["Run it again.", "Look at the end of the log."],
    };
  }
  return {
    ...base,
    chain: [
      {
        level: task.phase === "Completed" ? "done" : "info",
        reason: task.reason ?? task.phase,
        message: task.message ?? "The agent is working on it",
        since: task.startTime,
      },
    ],
    settings: settings("agent."),
    next: [],
  };
}

export function explainAgent(store: Store, agent: Agent): AgentExplain {
  const tasks = store.list<Task>("Task", agent.namespace).filter((task) => task.agentRef?.name === agent.name);
  const broken = agent.conditions?.find((condition) => condition.status === "False" && condition.type !== "Suspended");
  const running = tasks.filter((task) => task.phase === "Running");
  const waiting = tasks.filter((task) => task.phase === "Queued");
  return {
    agent: { namespace: agent.namespace, name: agent.name },
    phase: agent.phase,
    ready: agent.serverStatus.ready,
    chain: broken
      ? [
          { level: "wait", reason: "Pending", message: "It cannot start yet" },
          { level: "error", reason: broken.reason, message: broken.message ?? "", since: broken.lastTransitionTime },
        ]
      : [
          {
            level: agent.phase === "Suspended" ? "info" : "done",
            reason: agent.phase,
            message: agent.phase === "Suspended" ? "It rests: a Task wakes it" : "Its server answers",
            since: agent.createdAt,
          },
        ],
    settings: settings(""),
    running: running.map(inQueue),
    queue: {
      target: { kind: "Agent", namespace: agent.namespace, name: agent.name },
      waiting: waiting.length,
      running: running.length,
      maxConcurrentTasks: agent.maxConcurrentTasks,
      ahead: waiting.map(inQueue),
    },
    next: [],
  };
}
