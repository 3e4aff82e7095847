import { useQuery } from "@tanstack/react-query";
import { call, objectPath, url } from "../../api/client";
import { keys } from "../../api/keys";
import type { Task, TaskRun } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { SimpleTable } from "../../components/SimpleTable";
import { Tag } from "../../components/Tag";
import { allTokens, count, humanize, money } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import { formatDuration } from "../../lib/time";
import styles from "../Detail.module.css";

/** The outcome of each run, for Tasks with several runs. */
export function TaskRuns({ task }: { task: Task }) {
  const target = objectPath("tasks", task.namespace, task.name);
  const answer = useQuery({
    // The list changes when a run starts or ends.
    queryKey: [...keys.runs(task.namespace, task.name), task.runEpoch, task.phase],
    queryFn: ({ signal }) => call<{ runs: TaskRun[] }>(`${target}/runs`, { signal }),
    placeholderData: (before) => before,
  });
  const runs = answer.data?.runs ?? [];
  const cells = (run: TaskRun) => [
    String(run.run),
    <Badge key="status" status={taskStatus(run)} title={run.message} />,
    run.reason && humanize(run.reason),
    <Ago key="started" at={run.startTime} />,
    run.duration && formatDuration(run.duration),
    run.usage?.tokens && count(allTokens(run.usage.tokens)),
    money(run.usage?.cost),
    run.logs?.expiredAt ? (
      <span key="log" title={`Removed ${run.logs.expiredAt} by the limits of the log archive`}>
        expired
      </span>
    ) : (
      <a
        key="log"
        href={url(`${target}/logs`, { run: run.run, format: "text" })}
        download={`${task.name}-${run.run}.log`}
        aria-label={`Download the log of run ${run.run}`}
      >
        Log
      </a>
    ),
  ];
  return (
    <Card title="Runs" tools={<Tag>{runs.length}</Tag>} flush className={styles.whole}>
      <SimpleTable
        label="Runs"
        head={["Run", "Status", "Reason", "Started", "Duration", "Tokens", "Cost", "Log"]}
        wide={["Reason", "Duration", "Tokens", "Cost"]}
        rows={runs.map((run) => ({ key: String(run.run), cells: cells(run) }))}
      />
    </Card>
  );
}
