import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { answer, type Options } from "./api";
import { ApiFailure, json, sendFailure } from "./responses";
import { seededStore } from "./seed";
import { simulateUsage } from "./simulation";
import type { Store } from "./store";
import { serveTerminals } from "./terminal";

const DIST = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
/** The content security policy of the product. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

function servePage(response: ServerResponse, pathname: string): void {
  const file = join(DIST, normalize(pathname));
  const found = file.startsWith(DIST) && existsSync(file) && statSync(file).isFile() ? file : join(DIST, "index.html");
  response.writeHead(200, {
    "Content-Type": TYPES[extname(found)] ?? "application/octet-stream",
    "Content-Security-Policy": POLICY,
  });
  createReadStream(found).pipe(response);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

async function handle(
  store: Store,
  options: Options,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const address = new URL(request.url ?? "/", "http://mock");
  const share = /^\/s\/([^/]+)\/info$/.exec(address.pathname);
  try {
    if (share) {
      const found = [...store.shares.entries()].find(([, entry]) => entry.token === share[1]);
      if (!found) throw new ApiFailure(404, "NotFound", "The link does not work");
      const [namespace, agentName] = found[0].split("/");
      return json(response, 200, { namespace, agentName, expiresAt: found[1].expiresAt, profile: "Shared terminal" });
    }
    if (address.pathname.startsWith("/api/v1/")) {
      const body = await bodyOf(request);
      const path = address.pathname.slice("/api/v1/".length).split("/").map(decodeURIComponent);
      return answer({ store, request, response, query: address.searchParams, body, options }, path);
    }
    servePage(response, address.pathname);
  } catch (error) {
    if (error instanceof ApiFailure) sendFailure(response, error);
    else throw error;
  }
}

export interface Mock {
  url: string;
  server: Server;
  store: Store;
  close: () => Promise<void>;
}

/** Starts a mock server; port 0 selects a free port. */
export function startMock(port: number, tasks: number, options: Options = { closed: false }): Promise<Mock> {
  const store = seededStore(tasks);
  const server = createServer((request, response) => {
    handle(store, options, request, response).catch((error: unknown) => {
      json(response, 500, { error: "Internal", message: String(error), code: 500 });
    });
  });
  serveTerminals(server);
  const simulation = simulateUsage(store);
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      const actual = address !== null && typeof address === "object" ? address.port : port;
      resolve({
        url: `http://127.0.0.1:${actual}`,
        server,
        store,
        close: () =>
          new Promise((done) => {
            clearInterval(simulation);
            server.closeAllConnections();
            server.close(() => done());
          }),
      });
    });
  });
}
