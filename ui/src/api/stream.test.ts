import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { backoff, openStream, type StreamState } from "./stream";

class FakeSource {
  static opened: FakeSource[] = [];
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  closed = false;
  private listeners = new Map<string, (event: MessageEvent<string>) => void>();
  constructor(readonly address: string) {
    FakeSource.opened.push(this);
  }
  addEventListener(name: string, listener: (event: MessageEvent<string>) => void) {
    this.listeners.set(name, listener);
  }
  close() {
    this.closed = true;
  }
  say(name: string, data: string, lastEventId: string) {
    this.listeners.get(name)?.(new MessageEvent(name, { data, lastEventId }));
  }
}

beforeEach(() => {
  FakeSource.opened = [];
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

function open() {
  const heard: string[] = [];
  const states: StreamState[] = [];
  const close = openStream({
    address: (lastId) => `/stream?last=${lastId ?? ""}`,
    events: ["change"],
    onEvent: (_name, data) => heard.push(data),
    onState: (state) => states.push(state),
    open: (address) => new FakeSource(address) as unknown as EventSource,
  });
  return { heard, states, close };
}

test("an interrupted stream resumes after the last received message", () => {
  const { heard, states } = open();
  FakeSource.opened[0]?.onopen?.();
  FakeSource.opened[0]?.say("change", "one", "7");
  FakeSource.opened[0]?.onerror?.();
  expect(states.at(-1)).toBe("reconnecting");
  vi.advanceTimersByTime(600);
  expect(FakeSource.opened[1]?.address).toBe("/stream?last=7");
  FakeSource.opened[1]?.onopen?.();
  expect(states.at(-1)).toBe("open");
  expect(heard).toEqual(["one"]);
});

test("the position of the hello event is used before the first message", () => {
  openStream({
    address: (lastId) => `/stream?last=${lastId ?? ""}`,
    events: ["hello"],
    onEvent: () => {},
    onState: () => {},
    position: (_event, data, last) => (last === undefined ? data : undefined),
    open: (address) => new FakeSource(address) as unknown as EventSource,
  });
  FakeSource.opened[0]?.say("hello", "41", "");
  FakeSource.opened[0]?.onerror?.();
  vi.advanceTimersByTime(600);
  expect(FakeSource.opened[1]?.address).toBe("/stream?last=41");
});

test("a closed stream stays closed", () => {
  const { close, states } = open();
  FakeSource.opened[0]?.onerror?.();
  close();
  vi.advanceTimersByTime(60_000);
  expect(FakeSource.opened).toHaveLength(1);
  expect(states.at(-1)).toBe("closed");
});

test("the backoff is exponential, bounded and has jitter", () => {
  expect(backoff(0, () => 1)).toBe(500);
  expect(backoff(3, () => 1)).toBe(4_000);
  expect(backoff(20, () => 1)).toBe(15_000);
  expect(backoff(20, () => 0)).toBe(7_500);
});
