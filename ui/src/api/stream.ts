/** How a stream is doing, for the notice that a person sees. */
export type StreamState = "connecting" | "open" | "reconnecting" | "closed";

export interface StreamOptions {
  /** Address to open, given the id of the last message that was seen. */
  address: (lastId: string | undefined) => string;
  /** Names of the events to hear; unnamed ones are `message`. */
  events: string[];
  onEvent: (event: string, data: string) => void;
  onState: (state: StreamState) => void;
  /** A position that a message names in its data; without it, only ids of messages count. */
  position?: (event: string, data: string, last: string | undefined) => string | undefined;
  /** Replaced in tests. */
  open?: (address: string) => EventSource;
}

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Wait before attempt `n` (from 0): doubles, bounded, with jitter so that a thousand pages do not return at once. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
  return wait / 2 + (wait / 2) * random();
}

/**
 * A server-sent event stream that comes back by itself and goes on after the last message it saw.
 * The browser's own reconnecting gives up on an HTTP error (a restarting server), so it is not relied on.
 */
export function openStream(options: StreamOptions): () => void {
  const open = options.open ?? ((address: string) => new EventSource(address));
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lastId: string | undefined;
  let attempt = 0;
  let closed = false;

  const connect = () => {
    if (closed) return;
    const current = open(options.address(lastId));
    source = current;
    current.onopen = () => {
      attempt = 0;
      options.onState("open");
    };
    for (const event of options.events) {
      current.addEventListener(event, (raw) => {
        const message = raw as MessageEvent<string>;
        if (message.lastEventId) lastId = message.lastEventId;
        lastId = options.position?.(event, message.data, lastId) ?? lastId;
        options.onEvent(event, message.data);
      });
    }
    current.onerror = () => {
      current.close();
      if (closed || source !== current) return;
      options.onState("reconnecting");
      clearTimeout(timer);
      timer = setTimeout(connect, backoff(attempt));
      attempt += 1;
    };
  };

  options.onState("connecting");
  connect();
  return () => {
    closed = true;
    clearTimeout(timer);
    source?.close();
    options.onState("closed");
  };
}
