import { useEffect, useState } from "react";
import { objectPath, url } from "../../api/client";
import { openStream } from "../../api/stream";
import type { LogMessage, Task } from "../../api/types";

/**
 * The start of the agent. The status of a Task contains it only some seconds later, to save a write for short runs; the
 * log stream reports it at once.
 */
export function useStartTime(task: Task | undefined): string | undefined {
  const { namespace = "", name = "", phase, startTime, runEpoch } = task ?? {};
  const [seen, setSeen] = useState<{ run: number | undefined; startTime: string }>();
  const waits = phase === "Running" && startTime === undefined;
  useEffect(() => {
    if (!waits) return;
    const close = openStream({
      address: () => url(`${objectPath("tasks", namespace, name)}/logs`, { container: "agent", follow: true, tail: 0 }),
      events: ["message"],
      onState: () => undefined,
      onEvent: (_event, data) => {
        const message = JSON.parse(data) as LogMessage;
        if (message.type === "status" && message.startTime) {
          setSeen({ run: runEpoch, startTime: message.startTime });
          close();
        } else if (message.type === "complete") close();
      },
    });
    return close;
  }, [waits, namespace, name, runEpoch]);
  if (startTime !== undefined) return startTime;
  return waits && seen?.run === runEpoch ? seen?.startTime : undefined;
}
