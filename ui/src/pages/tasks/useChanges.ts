import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import type { Task, TaskChanges } from "../../api/types";
import { isFinished } from "../../lib/phase";

/** The changes of the workspace, which are recorded when the run ends. */
export function useChanges({ namespace, name, phase, runEpoch }: Task) {
  return useQuery({
    queryKey: keys.changes(namespace, name, runEpoch),
    queryFn: ({ signal }) => call<TaskChanges>(`${objectPath("tasks", namespace, name)}/changes`, { signal }),
    enabled: isFinished(phase),
    retry: false,
  });
}
