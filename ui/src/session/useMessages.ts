import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../api/client";
import { keys } from "../api/keys";
import type { SessionMessage, Task } from "../api/types";
import { isFinished } from "../lib/phase";

/**
 * The messages of a Task's session: an Agent keeps them, and the log of every run does. The status names the session when
 * the run has ended; while it goes on, `begun` says that there is one.
 */
export function useMessages(task: Task, begun: boolean) {
  return useQuery({
    queryKey: keys.messages(task.namespace, task.name),
    queryFn: ({ signal }) =>
      call<SessionMessage[]>(`${objectPath("tasks", task.namespace, task.name)}/session/messages`, { signal }),
    enabled: task.session?.id !== undefined || begun,
    retry: false,
  });
}

/** Why there is no session to show. */
export function noSession({ phase }: Task): string {
  if (isFinished(phase)) return "It ended without one; the log tells what happened.";
  return "The conversation appears here as soon as the agent begins to work.";
}
