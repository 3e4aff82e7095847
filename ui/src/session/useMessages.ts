import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../api/client";
import { keys } from "../api/keys";
import type { SessionMessage, Task } from "../api/types";
import { isFinished } from "../lib/phase";

/**
 * The messages of a Task's session. Only an Agent keeps sessions: what runs in a Pod of its own takes them with it. The
 * status names the session when the run has ended; while it goes on, `begun` says that there is one.
 */
export function useMessages(task: Task, begun: boolean) {
  return useQuery({
    queryKey: keys.messages(task.namespace, task.name),
    queryFn: ({ signal }) =>
      call<SessionMessage[]>(`${objectPath("tasks", task.namespace, task.name)}/session/messages`, { signal }),
    enabled: task.agentRef !== undefined && (task.session?.id !== undefined || begun),
    retry: false,
  });
}

/** Why there is no session to show. */
export function noSession({ agentRef, phase }: Task): string {
  if (!agentRef) {
    return "It has a Pod of its own, and the session goes with the Pod; the log tells what happened. Tasks on an Agent show it here.";
  }
  if (isFinished(phase)) return "It ended without a session on the Agent.";
  return "The conversation appears here as soon as the agent begins to work.";
}
