import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { adoptStyles } from "./adoptStyles";

export type TerminalState =
  | { state: "connecting"; message?: string }
  | { state: "open" }
  | { state: "ended"; message: string };

/** The message for a WebSocket close code of the API. */
export function closeMessage(code: number, reason: string): string {
  if (code === 1000) return "The session ended.";
  if (code === 1008) return reason || "You do not have access to this terminal.";
  if (reason) return reason;
  return "The connection was lost.";
}

function palette(dark: boolean) {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    background: token("surface"),
    foreground: token("text"),
    cursor: token("text"),
    selectionBackground: dark ? "#3a4a78" : "#c9d7fb",
    black: token("ansi-black"),
    red: token("ansi-red"),
    green: token("ansi-green"),
    yellow: token("ansi-yellow"),
    blue: token("ansi-blue"),
    magenta: token("ansi-magenta"),
    cyan: token("ansi-cyan"),
    white: token("ansi-white"),
  };
}

export interface Connection {
  /** Applies the colours of the current theme. */
  paint: (dark: boolean) => void;
  end: () => void;
}

/** Opens a terminal on a WebSocket. */
export function connectTerminal(
  host: HTMLElement,
  path: string,
  dark: boolean,
  onState: (state: TerminalState) => void,
): Connection {
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 13,
    cursorBlink: true,
    scrollback: 5_000,
    theme: palette(dark),
    screenReaderMode: true,
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  const dropStyles = adoptStyles(document, () => terminal.open(host));
  fit.fit();

  const address = new URL(path, window.location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.searchParams.set("cols", String(terminal.cols));
  address.searchParams.set("rows", String(terminal.rows));
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  const bytes = new TextEncoder();
  const send = (data: string | Uint8Array<ArrayBuffer>) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(data);
  };

  onState({ state: "connecting" });
  socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
    if (typeof event.data === "string") {
      const status = JSON.parse(event.data) as { type?: string; message?: string };
      if (status.type === "status") onState({ state: "connecting", message: status.message });
      return;
    }
    onState({ state: "open" });
    terminal.write(new Uint8Array(event.data));
  };
  socket.onclose = (event) => onState({ state: "ended", message: closeMessage(event.code, event.reason) });

  const typed = terminal.onData((text) => send(bytes.encode(text)));
  const resized = terminal.onResize(({ cols, rows }) => send(JSON.stringify({ type: "resize", cols, rows })));
  const watcher = new ResizeObserver(() => fit.fit());
  watcher.observe(host);
  terminal.focus();

  return {
    paint: (nowDark) => {
      terminal.options.theme = palette(nowDark);
    },
    end: () => {
      watcher.disconnect();
      typed.dispose();
      resized.dispose();
      socket.onclose = null;
      socket.close();
      terminal.dispose();
      dropStyles();
    },
  };
}
