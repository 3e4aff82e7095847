import { act, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { aTask } from "../../test/bodies";
import { PhaseTimeline } from "./PhaseTimeline";
import { useStartTime } from "./useStartTime";

class Stream {
  static all: Stream[] = [];
  listeners = new Map<string, (event: { data: string; lastEventId: string }) => void>();
  closed = false;
  onopen?: () => void;
  onerror?: () => void;
  constructor(readonly address: string) {
    Stream.all.push(this);
  }
  addEventListener(name: string, listener: (event: { data: string; lastEventId: string }) => void) {
    this.listeners.set(name, listener);
  }
  close() {
    this.closed = true;
  }
  send(message: object) {
    act(() => this.listeners.get("message")?.({ data: JSON.stringify(message), lastEventId: "" }));
  }
}

afterEach(() => {
  vi.unstubAllGlobals();
  Stream.all = [];
});

const task = aTask({
  phase: "Running",
  runEpoch: 1,
  timings: { queuedAt: "2026-11-16T10:00:00Z", admittedAt: "2026-11-16T10:00:01Z" },
});

function Bar(props: { task: typeof task }) {
  const startTime = useStartTime(props.task);
  return <PhaseTimeline task={startTime ? { ...props.task, startTime } : props.task} />;
}

test("the bar shows Running as soon as the agent starts", () => {
  vi.stubGlobal("EventSource", Stream);
  render(<Bar task={task} />);
  const [stream] = Stream.all;
  expect(screen.getByRole("img").getAttribute("aria-label")).toMatch(/Preparing .* so far$/);
  stream?.send({ type: "status", phase: "Running" });
  expect(screen.getByRole("img").getAttribute("aria-label")).toMatch(/Preparing .* so far$/);
  stream?.send({ type: "status", phase: "Running", startTime: "2026-11-16T10:00:03Z" });
  expect(screen.getByRole("img").getAttribute("aria-label")).toMatch(/Preparing 2s, Running .* so far$/);
  expect(stream?.closed).toBe(true);
});

test("a Task with a start, or without a run, needs no stream", () => {
  vi.stubGlobal("EventSource", Stream);
  render(<Bar task={{ ...task, startTime: "2026-11-16T10:00:03Z" }} />);
  render(<Bar task={{ ...task, phase: "Queued" }} />);
  expect(Stream.all).toEqual([]);
});
