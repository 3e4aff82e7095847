import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call, objectPath, url } from "../api/client";
import { keys } from "../api/keys";
import type { LogContainer, Task } from "../api/types";
import { LogView } from "./LogView";
import { useLogStream } from "./useLogStream";

const MAIN = "agent";

/** The log of a Task, with a selection of the container. */
export function TaskLog({ task, onActivity }: { task: Task; onActivity?: () => void }) {
  // Unless a person chooses, the server does: the container that failed to prepare the Pod, else the agent.
  const [chosen, setChosen] = useState<string>();
  const target = `${objectPath("tasks", task.namespace, task.name)}/logs`;
  const containers = useQuery({
    queryKey: [...keys.containers(task.namespace, task.name), task.podName ?? ""],
    queryFn: ({ signal }) => call<{ containers: LogContainer[] }>(`${target}/containers`, { signal }),
    enabled: task.podName !== undefined,
    retry: false,
  });
  const log = useLogStream({
    namespace: task.namespace,
    name: task.name,
    container: chosen,
    epoch: task.runEpoch ?? 0,
    onActivity,
  });
  const container = chosen ?? log.container ?? MAIN;
  const names = containers.data?.containers.map((entry) => entry.name) ?? [];
  return (
    <LogView
      log={log}
      containers={names.length > 0 ? names : [MAIN]}
      container={container}
      onContainer={setChosen}
      downloadUrl={url(target, { container, format: "text" })}
      fileName={`${task.name}.log`}
    />
  );
}
