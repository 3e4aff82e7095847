import type { ServerResponse } from "node:http";
import type { FieldProblem } from "../src/api/types";

/** An error response of the API. */
export class ApiFailure extends Error {
  constructor(
    readonly code: number,
    readonly reason: string,
    message: string,
    readonly fields: FieldProblem[] = [],
  ) {
    super(message);
  }
}

export function json(
  response: ServerResponse,
  code: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(code, { "Content-Type": "application/json", ...headers });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

export function text(response: ServerResponse, type: string, body: string): void {
  response.writeHead(200, { "Content-Type": type });
  response.end(body);
}

export function sendFailure(response: ServerResponse, failure: ApiFailure): void {
  const [first] = failure.fields;
  json(response, failure.code, {
    error: failure.reason,
    message: failure.message,
    code: failure.code,
    ...(first ? { field: first.field } : {}),
    ...(failure.fields.length > 1 ? { fields: failure.fields } : {}),
  });
}

/** A stream of server-sent events with heartbeats. */
export function openEvents(response: ServerResponse): {
  send: (data: unknown, options?: { id?: string; event?: string }) => void;
  onClose: (run: () => void) => void;
} {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
  const heartbeat = setInterval(() => response.write(": heartbeat\n\n"), 15_000);
  response.on("close", () => clearInterval(heartbeat));
  return {
    send: (data, { id, event } = {}) => {
      response.write(`${id ? `id: ${id}\n` : ""}${event ? `event: ${event}\n` : ""}data: ${JSON.stringify(data)}\n\n`);
    },
    onClose: (run) => response.on("close", run),
  };
}
