import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { call, objectPath, url } from "../api/client";
import { keys } from "../api/keys";
import type { LogContainer, Task } from "../api/types";
import { LogView } from "./LogView";
import { useLogStream } from "./useLogStream";
import { useStoredMatches } from "./useStoredMatches";

const MAIN = "agent";

/** The log of a Task, with a selection of the container and, after a rerun, of the run. */
export function TaskLog({ task, onActivity }: { task: Task; onActivity?: () => void }) {
  // Unless a person chooses, the server does: the container that failed to prepare the Pod, else the agent.
  const [chosen, setChosen] = useState<string>();
  const current = task.runEpoch ?? 0;
  const [run, setRun] = useState(current);
  // A new run shows its own log.
  useEffect(() => setRun(current), [current]);
  const [text, setText] = useState("");
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
    epoch: current,
    run: run < current ? run : undefined,
    onActivity,
  });
  const container = chosen ?? log.container ?? MAIN;
  const stored = useStoredMatches(
    {
      namespace: task.namespace,
      name: task.name,
      container,
      enabled: current > 1 || log.earlier.first > 1,
    },
    text,
  );
  const names = containers.data?.containers.map((entry) => entry.name) ?? [];
  return (
    <LogView
      log={log}
      containers={names.length > 0 ? names : [MAIN]}
      container={container}
      onContainer={setChosen}
      run={run}
      runs={current}
      onRun={setRun}
      onSearch={setText}
      stored={stored}
      downloadUrl={url(target, { container, run: run < current ? run : undefined, format: "text" })}
      fileName={run < current ? `${task.name}-${run}.log` : `${task.name}.log`}
    />
  );
}
