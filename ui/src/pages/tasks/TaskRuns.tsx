import { useQuery } from "@tanstack/react-query";
import { call, objectPath, url } from "../../api/client";
import { keys } from "../../api/keys";
import type { Task, TaskRun } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { SimpleTable } from "../../components/SimpleTable";
import { Tag } from "../../components/Tag";
import { allTokens, count, money, words } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import { told } from "../../lib/time";
import styles from "../Detail.module.css";

/** How each run of a Task ended, for one that ran more than once. */
export function TaskRuns({ task }: { task: Task }) {
  const target = objectPath("tasks", task.namespace, task.name);
  const answer = useQuery({
    // What is known changes when a run begins and when it ends.
    queryKey: [...keys.runs(task.namespace, task.name), task.runEpoch, task.phase],
    queryFn: ({ signal }) => call<{ runs: TaskRun[] }>(`${target}/runs`, { signal }),
    placeholderData: (before) => before,
  });
  const runs = answer.data?.runs ?? [];
  const cells = (run: TaskRun) => [
    String(run.run),
    <Badge key="status" status={taskStatus(run)} title={run.message} />,
    run.reason && words(run.reason),
    <Ago key="started" at={run.startTime} />,
    run.duration && told(run.duration),
    run.usage?.tokens && count(allTokens(run.usage.tokens)),
    money(run.usage?.cost),
    <a
      key="log"
      href={url(`${target}/logs`, { run: run.run, format: "text" })}
      download={`${task.name}-${run.run}.log`}
      aria-label={`Download the log of run ${run.run}`}
    >
      Log
    </a>,
  ];
  return (
    <Card title="Runs" tools={<Tag>{runs.length}</Tag>} flush className={styles.whole}>
      <SimpleTable
        label="Runs"
        head={["Run", "Status", "Reason", "Started", "Took", "Tokens", "Cost", "Log"]}
        wide={["Reason", "Took", "Tokens", "Cost"]}
        rows={runs.map((run) => ({ key: String(run.run), cells: cells(run) }))}
      />
    </Card>
  );
}
