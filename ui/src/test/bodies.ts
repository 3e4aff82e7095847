import type { Explain, Task } from "../api/types";

/** A Task response with defaults. */
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

/** An explanation response with defaults. */
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
