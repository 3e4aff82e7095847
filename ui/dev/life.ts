import type { Agent, Task } from "../src/api/types";
import { LOG, transcript } from "./seed";
import type { World } from "./world";

/** Steps in the short life of a Task that was just created. */
export function liveOn(world: World, namespace: string, name: string, pace = 600): void {
  const key = `${namespace}/${name}`;
  const alive = () => {
    const task = world.get<Task>("Task", namespace, name);
    return task && !task.completionTime ? task : undefined;
  };
  const now = () => new Date().toISOString();
  world.logs.set(key, []);
  setTimeout(() => {
    if (!alive()) return;
    const admittedAt = now();
    world.patch<Task>("Task", namespace, name, {
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
      world.logs.get(key)?.push(LOG[line] ?? "");
      line += 1;
      if (line === 4) world.messages.set(key, transcript(Date.now()));
      if (line >= LOG.length || task.stopRequested) {
        clearInterval(timer);
        world.patch<Task>("Task", namespace, name, {
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

/** A little movement, so that the page can be seen to be live. */
export function breathe(world: World): NodeJS.Timeout {
  return setInterval(() => {
    const task = world.get<Task>("Task", "shop", "fix-login-timeout");
    if (task?.phase !== "Running" || !task.usage?.tokens) return;
    const input = task.usage.tokens.input + 240;
    world.patch<Task>("Task", "shop", "fix-login-timeout", {
      usage: { tokens: { ...task.usage.tokens, input }, cost: (input * 0.0000039).toFixed(6) },
    });
  }, 2_000);
}

/** A suspended Agent wakes up, a running one goes to rest. */
export function turnAgent(world: World, agent: Agent, on: boolean): Agent | undefined {
  return world.patch<Agent>("Agent", agent.namespace, agent.name, {
    suspend: !on,
    phase: on ? "Running" : "Suspended",
    suspendedBy: on ? undefined : "User",
    serverStatus: { ...agent.serverStatus, ready: on, suspended: !on },
  });
}
