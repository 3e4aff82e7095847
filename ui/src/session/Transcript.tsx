import { useQuery } from "@tanstack/react-query";
import { MessagesSquare } from "lucide-react";
import { call, objectPath } from "../api/client";
import { ApiError } from "../api/error";
import { keys } from "../api/keys";
import type { SessionMessage, Task } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { ErrorState } from "../components/ErrorState";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { isFinished } from "../lib/phase";
import { MessageView } from "./MessageView";
import styles from "./Transcript.module.css";

function sentence({ agentRef, phase }: Task): string {
  if (!agentRef) return "It has a Pod of its own, which keeps no session; the log tells what happens.";
  if (isFinished(phase)) return "The run ended without a session on the Agent; the log tells what happened.";
  return "The conversation appears here as soon as the agent begins to work.";
}

/** What the agent was told, thought, did and said. */
export function Transcript({ task }: { task: Task }) {
  // Only an Agent keeps sessions: what runs in a Pod of its own takes them with it.
  const kept = task.agentRef !== undefined && task.session?.id !== undefined;
  const messages = useQuery({
    queryKey: keys.messages(task.namespace, task.name),
    queryFn: ({ signal }) =>
      call<SessionMessage[]>(`${objectPath("tasks", task.namespace, task.name)}/session/messages`, { signal }),
    enabled: kept,
    retry: false,
  });

  if (!kept || ApiError.is(messages.error, 404)) {
    return (
      <EmptyState small title="No session" icon={<MessagesSquare size={20} />}>
        {sentence(task)}
      </EmptyState>
    );
  }
  if (messages.error) return <ErrorState small error={messages.error} onRetry={() => messages.refetch()} />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: it is a scrolling frame.
    <div className={styles.scroller} tabIndex={0} role="group" aria-label="Session">
      {messages.data ? (
        <ol className={styles.list}>
          {messages.data.map((message) => (
            <MessageView key={message.info.id} message={message} />
          ))}
        </ol>
      ) : (
        <SkeletonBlock lines={8} label="Loading the session" />
      )}
    </div>
  );
}
