import type { Explain, Task } from "../api/types";

/** A Task as the server sends it: what is always there, and what the test is about. */
export function aTask(part: Partial<Task> = {}): Task {
  return {
    name: "t",
    namespace: "n",
    phase: "Running",
    priority: 0,
    conditions: [],
    stopRequested: false,
    awaitingApproval: false,
    ...part,
  };
}

/** An explanation as the server sends it, likewise. */
export function anExplanation(part: Partial<Explain> = {}): Explain {
  return {
    task: { namespace: "shop", name: "t" },
    phase: "Queued",
    chain: [],
    dependencies: [],
    settings: [],
    next: [],
    ...part,
  };
}
