import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { keys } from "../../api/keys";
import type { Task } from "../../api/types";
import { Card } from "../../components/Card";
import { TaskLog } from "../../logs/TaskLog";
import { Transcript } from "../../session/Transcript";
import styles from "../Detail.module.css";

/** Each line of the log may mean a new message or question; they are asked for together, not one by one. */
const GATHER_MS = 1_500;

/** The log, and the conversation beside it. */
export function TaskWork({ task }: { task: Task }) {
  const cache = useQueryClient();
  const [begun, setBegun] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const refreshMessages = () => {
    setBegun(true);
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void cache.invalidateQueries({ queryKey: keys.messages(task.namespace, task.name) });
      void cache.invalidateQueries({ queryKey: keys.permissions(task.namespace, task.name) });
    }, GATHER_MS);
  };
  return (
    <div className={styles.panes}>
      <Card title="Log" flush className={styles.pane}>
        <TaskLog task={task} onActivity={refreshMessages} />
      </Card>
      <Card title="Session" flush className={styles.pane}>
        <Transcript task={task} begun={begun} />
      </Card>
    </div>
  );
}
