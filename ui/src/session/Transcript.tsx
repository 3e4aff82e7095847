import { MessagesSquare } from "lucide-react";
import { useState } from "react";
import { ApiError } from "../api/error";
import type { Task } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { ErrorState } from "../components/ErrorState";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { TextInput } from "../components/TextInput";
import { plural } from "../lib/format";
import { isFinished } from "../lib/phase";
import { MessageView } from "./MessageView";
import { matching } from "./search";
import styles from "./Transcript.module.css";
import { noSession, useMessages } from "./useMessages";

/** The session of a Task. `begun`: the log is not empty. */
export function Transcript({ task, begun }: { task: Task; begun: boolean }) {
  const messages = useMessages(task, begun);
  const [search, setSearch] = useState("");
  if (!messages.isEnabled || ApiError.is(messages.error, 404)) {
    return (
      <EmptyState
        small
        title={isFinished(task.phase) ? "No session" : "Not started yet"}
        icon={<MessagesSquare size={20} />}
      >
        {noSession(task)}
      </EmptyState>
    );
  }
  if (messages.error) return <ErrorState small error={messages.error} onRetry={() => messages.refetch()} />;
  const shown = matching(messages.data ?? [], search);
  const found = shown.reduce((sum, message) => sum + message.parts.length, 0);
  return (
    <div className={styles.session}>
      <div className={styles.tools}>
        <TextInput
          type="search"
          aria-label="Search in the session"
          placeholder="Search in the session"
          value={search}
          onValue={setSearch}
        />
        <span className="quiet" role="status">
          {search === "" ? "" : plural(found, "match", "matches")}
        </span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard. */}
      {/* biome-ignore lint/a11y/useSemanticElements: it is a scrolling area. */}
      <div className={styles.scroller} tabIndex={0} role="group" aria-label="Session">
        {messages.data ? (
          <ol className={styles.list}>
            {shown.map((message) => (
              <MessageView key={message.info.id} message={message} search={search} />
            ))}
          </ol>
        ) : (
          <SkeletonBlock lines={8} label="Loading the session" />
        )}
      </div>
    </div>
  );
}
