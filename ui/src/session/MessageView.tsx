import { Bot, User } from "lucide-react";
import type { SessionMessage } from "../api/types";
import { Ago } from "../components/Ago";
import { classes } from "../components/classes";
import { Notice } from "../components/Notice";
import { money, short } from "../lib/format";
import { PartView } from "./PartView";
import styles from "./Transcript.module.css";

export function MessageView({ message: { info, parts }, search }: { message: SessionMessage; search: string }) {
  const user = info.role === "user";
  const tokens = (info.tokens?.input ?? 0) + (info.tokens?.output ?? 0) + (info.tokens?.reasoning ?? 0);
  return (
    <li className={classes(styles.message, user && styles.user)}>
      <div className={styles.head}>
        <span className={styles.who}>
          {user ? <User size={14} aria-hidden="true" /> : <Bot size={14} aria-hidden="true" />}
          {user ? "Task" : "Agent"}
        </span>
        {info.modelID && <span>{info.modelID}</span>}
        {tokens > 0 && <span>{short(tokens)} tokens</span>}
        {info.cost ? <span>{money(info.cost)}</span> : null}
        {info.time?.created !== undefined && <Ago at={new Date(info.time.created).toISOString()} />}
      </div>
      {parts.map((part, i) => (
        <PartView key={part.id ?? i} part={part} search={search} />
      ))}
      {info.error && (
        <Notice tone="bad">
          {info.error.name ?? "Error"}
          {info.error.data?.message ? `: ${info.error.data.message}` : ""}
        </Notice>
      )}
    </li>
  );
}
