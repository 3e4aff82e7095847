import type { Agent, Task } from "../src/api/types";
import { LOG, transcript } from "./seed";
import type { Store } from "./store";

/** Simulates the run of a new Task. */
export function simulateRun(store: Store, namespace: string, name: string, pace = 600): void {
  const key = `${namespace}/${name}`;
  const alive = () => {
    const task = store.get<Task>("Task", namespace, name);
    return task && !task.completionTime ? task : undefined;
  };
  const now = () => new Date().toISOString();
  store.logs.set(key, []);
  setTimeout(() => {
    if (!alive()) return;
    const admittedAt = now();
    store.patch<Task>("Task", namespace, name, {
      phase: "Running",
      reason: undefined,
      message: undefined,
      queuePosition: undefined,
      podName: `${name}-pod`,
      runEpoch: (alive()?.runEpoch ?? 0) + 1,
      startTime: admittedAt,
      timings: { queuedAt: alive()?.createdAt, admittedAt },
      session: { id: `ses_${name}`, title: name, summary: { messageCount: 1 } },
    });
    let line = 0;
    const timer = setInterval(() => {
      const task = alive();
      if (!task) {
        clearInterval(timer);
        return;
      }
      store.logs.get(key)?.push(LOG[line] ?? "");
      line += 1;
      if (line === 4) store.messages.set(key, transcript(Date.now()));
      if (line >= LOG.length || task.stopRequested) {
        clearInterval(timer);
        store.patch<Task>("Task", namespace, name, {
          phase: "Completed",
          reason: task.stopRequested ? "UserStopped" : "Succeeded",
          message: task.stopRequested ? "Its user stopped it" : "The agent finished its work",
          completionTime: now(),
          usage: { tokens: { input: 8330, output: 1140, reasoning: 120, cache: 0 }, cost: "0.0325" },
          result: { summary: "Done." },
        });
      }
    }, pace);
  }, pace);
}

/** Periodic changes, to see live updates. */
export function simulateUsage(store: Store): NodeJS.Timeout {
  return setInterval(() => {
    const task = store.get<Task>("Task", "shop", "fix-login-timeout");
    if (task?.phase !== "Running" || !task.usage?.tokens) return;
    const input = task.usage.tokens.input + 240;
    store.patch<Task>("Task", "shop", "fix-login-timeout", {
      usage: { tokens: { ...task.usage.tokens, input }, cost: (input * 0.0000039).toFixed(6) },
    });
  }, 2_000);
}

/** Resumes or suspends an Agent. */
export function setAgentRunning(store: Store, agent: Agent, on: boolean): Agent | undefined {
  return store.patch<Agent>("Agent", agent.namespace, agent.name, {
    suspend: !on,
    phase: on ? "Running" : "Suspended",
    suspendedBy: on ? undefined : "User",
    serverStatus: { ...agent.serverStatus, ready: on, suspended: !on },
  });
}
