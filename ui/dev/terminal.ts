import type { Server } from "node:http";
import { WebSocketServer } from "ws";

/** A shell that echoes its input. */
export function serveTerminals(server: Server): void {
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => {
    const { pathname } = new URL(request.url ?? "/", "http://mock");
    if (!/^\/(api\/v1\/namespaces\/[^/]+\/agents\/[^/]+|s\/[^/]+)\/terminal$/.test(pathname)) {
      socket.destroy();
      return;
    }
    sockets.handleUpgrade(request, socket, head, (client) => {
      client.send(JSON.stringify({ type: "status", message: "Starting OpenCode" }));
      setTimeout(() => client.send(Buffer.from("\u001b[1mOpenCode\u001b[0m \u001b[32mready\u001b[0m\r\n> ")), 200);
      client.on("message", (data: Buffer, isBinary) => {
        if (!isBinary) return;
        const typed = data.toString();
        client.send(Buffer.from(typed === "\r" ? "\r\n> " : typed));
      });
    });
  });
}
