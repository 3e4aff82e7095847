import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../api/client";
import { keys } from "../api/keys";
import type { SessionMessage, Task } from "../api/types";
import { isFinished } from "../lib/phase";

/**
 * The messages of the session of a Task, from the Agent or from the log of the run. The status contains the session
 * only after the run; before, `begun` indicates that a session exists.
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

/** Why there is no session. */
export function noSession({ phase }: Task): string {
  if (isFinished(phase)) return "No session was started. See the log.";
  return "The session appears here when the agent starts.";
}
