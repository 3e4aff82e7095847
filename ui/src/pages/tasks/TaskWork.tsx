import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { keys } from "../../api/keys";
import type { Task } from "../../api/types";
import { Card } from "../../components/Card";
import { TaskLog } from "../../logs/TaskLog";
import { Transcript } from "../../session/Transcript";
import styles from "../Detail.module.css";

/** Log lines indicate new messages and permission requests; both are fetched at most this often. */
const GATHER_MS = 1_500;

/** The log and the session. */
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
