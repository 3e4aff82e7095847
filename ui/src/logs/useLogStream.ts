import { useEffect, useRef, useState } from "react";
import { objectPath, url } from "../api/client";
import { openStream, type StreamState } from "../api/stream";
import type { LogMessage } from "../api/types";
import { EarlierLines } from "./earlier";
import { LogBuffer, type LogLine } from "./lines";

export interface LogState {
  lines: LogLine[];
  /** Number of the lines before them. */
  dropped: number;
  earlier: EarlierLines;
  stream: StreamState;
  /** Why the log is still empty. */
  info?: string;
  error?: string;
  /** The run has finished and the log is complete or lost. */
  complete: boolean;
  /** A part of the log was lost. */
  cut: boolean;
  /** What a finished log lacks, as a sentence: lines that were lost, or lines beyond its limit. */
  lacks?: string | undefined;
  /** The container whose log this is, as chosen by the server. */
  container?: string | undefined;
}

const START: LogState = {
  lines: [],
  dropped: 0,
  earlier: new EarlierLines(),
  stream: "connecting",
  complete: false,
  cut: false,
};

export interface LogSource {
  namespace: string;
  name: string;
  /** The server chooses if unset. */
  container: string | undefined;
  /** Number of the current run; a new run starts a new log. */
  epoch: number;
  /** Number of an earlier run whose log to show. */
  run?: number | undefined;
  onActivity?: () => void;
}

/** Follows the log of a Task. Lines are rendered in batches, once per frame. */
export function useLogStream({ namespace, name, container, epoch, run, onActivity }: LogSource): LogState {
  const [state, setState] = useState<LogState>(START);
  const activity = useRef(onActivity);
  useEffect(() => {
    activity.current = onActivity;
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new epoch is a new log at the same URL.
  useEffect(() => {
    const buffer = new LogBuffer();
    let frame = 0;
    let complete = false;
    setState({ ...START, earlier: buffer.earlier });
    const publish = () => {
      frame = 0;
      setState((previous) => ({ ...previous, lines: buffer.lines.slice(), dropped: buffer.dropped, info: undefined }));
      activity.current?.();
    };
    const close = openStream({
      address: (lastEventId) =>
        url(`${objectPath("tasks", namespace, name)}/logs`, { container, run, follow: true, lastEventId }),
      events: ["message"],
      onState: (stream) => setState((previous) => ({ ...previous, stream: complete ? "closed" : stream })),
      onEvent: (_event, data) => {
        const message = JSON.parse(data) as LogMessage;
        switch (message.type) {
          case "log":
            buffer.append(message.content, message.time);
            frame ||= requestAnimationFrame(publish);
            break;
          case "info":
            setState((previous) => ({ ...previous, info: message.message }));
            break;
          case "error":
            setState((previous) => ({ ...previous, error: message.message }));
            break;
          case "complete":
            complete = true;
            close();
            setState((previous) => ({
              ...previous,
              complete: true,
              cut: message.complete === false,
              lacks: message.message,
            }));
            break;
          case "status":
            setState((previous) => ({ ...previous, container: message.container }));
            break;
        }
      },
    });
    return () => {
      cancelAnimationFrame(frame);
      close();
    };
  }, [namespace, name, container, epoch, run]);

  return state;
}
