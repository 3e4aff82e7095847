import type { AgentPhase, Task, TaskPhase } from "../api/types";

/** Meaning of a status; determines colour and icon. */
export type Tone = "good" | "bad" | "warn" | "busy" | "idle";

export interface Status {
  tone: Tone;
  label: string;
}

const TASK_TONES: Record<TaskPhase, Tone> = {
  Pending: "idle",
  Queued: "warn",
  Running: "busy",
  Completed: "good",
  Failed: "bad",
};

/** Whether a Task was stopped by a user or its timeout. Its phase is Completed; people see Stopped. */
export function isStopped({ phase, reason }: Partial<Pick<Task, "phase" | "reason">>): boolean {
  return phase === "Completed" && (reason === "UserStopped" || reason === "Timeout");
}

/** Whether the agent has finished and its results are being stored. */
export function isCollecting({ phase, reason }: Partial<Pick<Task, "phase" | "reason">>): boolean {
  return phase === "Running" && reason === "Collecting";
}

export function taskStatus(
  task: Partial<Pick<Task, "phase" | "reason" | "stopRequested" | "awaitingApproval">>,
): Status {
  const phase = task.phase ?? "Pending";
  if (isStopped(task)) return { tone: "idle", label: "Stopped" };
  if (phase === "Running" && task.awaitingApproval) return { tone: "warn", label: "Needs approval" };
  if (isCollecting(task)) return { tone: "busy", label: "Collecting" };
  if (phase === "Running" && task.stopRequested) return { tone: "busy", label: "Stopping" };
  return { tone: TASK_TONES[phase], label: phase };
}

export function isFinished(phase: TaskPhase | undefined): boolean {
  return phase === "Completed" || phase === "Failed";
}

export function agentStatus(agent: { phase?: AgentPhase; ready?: boolean; suspendedBy?: string }): Status {
  switch (agent.phase) {
    case "Suspended":
      return { tone: "idle", label: agent.suspendedBy === "Standby" ? "Standby" : "Suspended" };
    case "Failed":
      return { tone: "bad", label: "Failed" };
    case "Running":
      return agent.ready === false ? { tone: "warn", label: "Not ready" } : { tone: "good", label: "Ready" };
    default:
      return { tone: "warn", label: "Pending" };
  }
}

export function readyStatus(ready: boolean | undefined): Status {
  if (ready === undefined) return { tone: "idle", label: "Unknown" };
  return ready ? { tone: "good", label: "Ready" } : { tone: "bad", label: "Not ready" };
}
