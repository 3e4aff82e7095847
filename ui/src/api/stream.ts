/** State of a stream, shown as a notice. */
export type StreamState = "connecting" | "open" | "reconnecting" | "closed";

export interface StreamOptions {
  /** URL to open, given the id of the last received message. */
  address: (lastId: string | undefined) => string;
  /** Names of the events to listen to; unnamed events are `message`. */
  events: string[];
  onEvent: (event: string, data: string) => void;
  onState: (state: StreamState) => void;
  /** Position contained in the data of a message; by default only message ids count. */
  position?: (event: string, data: string, last: string | undefined) => string | undefined;
  /** Replaced in tests. */
  open?: (address: string) => EventSource;
}

const INITIAL_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 15_000;

/** Delay before attempt `n` (from 0): exponential, bounded, with jitter so that many pages do not reconnect at once. */
export function backoff(attempt: number, random: () => number = Math.random): number {
  const wait = Math.min(MAX_BACKOFF_MS, INITIAL_BACKOFF_MS * 2 ** attempt);
  return wait / 2 + (wait / 2) * random();
}

/**
 * A server-sent event stream that reconnects and resumes after the last received message.
 * EventSource itself stops reconnecting after an HTTP error (a restarting server).
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
