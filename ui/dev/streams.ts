import type { ServerResponse } from "node:http";
import type { LogSearch, Task } from "../src/api/types";
import { ApiFailure, openEvents, text } from "./responses";
import type { Store } from "./store";

export function streamChanges(
  store: Store,
  response: ServerResponse,
  lastId: string | undefined,
  kinds: string[],
): void {
  const events = openEvents(response);
  const wanted = (kind: string) => kinds.length === 0 || kinds.includes(kind);
  events.send({ id: String(store.position) }, { event: "hello" });
  if (lastId !== undefined) {
    const missed = store.since(Number(lastId));
    if (missed) {
      for (const { id, change } of missed)
        if (wanted(change.kind)) events.send(change, { id: String(id), event: "change" });
    } else events.send({}, { event: "reset" });
  }
  events.onClose(
    store.listen((id, change) => {
      if (wanted(change.kind)) events.send(change, { id: String(id), event: "change" });
    }),
  );
}

export function streamLog(store: Store, response: ServerResponse, task: Task, lastId: string | undefined): void {
  const key = `${task.namespace}/${task.name}`;
  const events = openEvents(response);
  let sent = lastId ? Number(lastId.split(":")[1]) : 0;
  let info = "";
  events.send({ type: "status", phase: task.phase, podName: task.podName });
  const step = () => {
    const current = store.get<Task>("Task", task.namespace, task.name);
    const lines = store.logs.get(key) ?? [];
    for (; sent < lines.length; sent += 1) {
      events.send(
        { type: "log", content: `${lines[sent]}\n`, time: new Date().toISOString() },
        { id: `1:${sent + 1}` },
      );
    }
    if (!current || current.completionTime) {
      events.send({ type: "complete", phase: current?.phase });
      clearInterval(timer);
      response.end();
      return;
    }
    const message = current.message ?? "";
    if (current.phase !== "Running" && message !== info) {
      info = message;
      events.send({ type: "info", message });
    }
  };
  const timer = setInterval(step, 200);
  step();
  events.onClose(() => clearInterval(timer));
}

/** The last lines of a log stand for an earlier run. */
export function searchLog(store: Store, task: Task, text: string): LogSearch {
  const lines = store.logs.get(`${task.namespace}/${task.name}`) ?? [];
  const wanted = text.toLowerCase();
  const current = task.runEpoch ?? 1;
  const runs = Array.from({ length: current }, (_, i) => current - i).map((epoch) => {
    const all = epoch === current ? lines : lines.slice(-6);
    const matches = all
      .map((line, i) => ({ line: i + 1, text: line }))
      .filter((match) => match.text.toLowerCase().includes(wanted));
    return { epoch, matches, matchCount: matches.length, lineCount: all.length };
  });
  return { runs };
}

export function logText(store: Store, response: ServerResponse, task: Task, container: string): void {
  if (container !== "agent" && container !== "context-init")
    throw new ApiFailure(404, "NotFound", `There is no container '${container}'`);
  text(
    response,
    "text/plain; charset=utf-8",
    `${(store.logs.get(`${task.namespace}/${task.name}`) ?? []).join("\n")}\n`,
  );
}
