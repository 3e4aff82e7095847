import type { ReactNode } from "react";
import { Link } from "react-router";
import type { Task } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { ObjectLink } from "../../components/ObjectLink";
import { Tag } from "../../components/Tag";
import { bytes, humanize, plural } from "../../lib/format";
import { isFinished } from "../../lib/phase";
import { formatDuration } from "../../lib/time";
import { ContextList } from "../ContextList";
import styles from "../Detail.module.css";
import { LabelList } from "../LabelList";
import { ApprovalsCard } from "./ApprovalsCard";
import { CachesCard } from "./CachesCard";
import { OutputsCard } from "./OutputsCard";
import { PublishedLink } from "./PublishedLink";
import { TaskRuns } from "./TaskRuns";
import { UsageFacts } from "./UsageFacts";

/** The user who created the Task; otherwise its CronTask, or the program. */
function createdBy({ namespace, createdBy: user, createdWith, cronTask }: Task): ReactNode {
  if (user) return user;
  if (cronTask) return <ObjectLink kind="CronTask" namespace={namespace} name={cronTask} withKind />;
  return createdWith && `program ${createdWith}`;
}

/** Size of the archived log, and what it lacks. */
function logFacts({ lines, bytes: size, complete, gaps, expiredAt }: NonNullable<Task["logs"]>): string {
  return [
    plural(lines ?? 0, "line"),
    bytes(size ?? 0),
    complete === false && "the end is lost",
    gaps && `lines are missing in ${plural(gaps, "place")}`,
    expiredAt && "expired",
  ]
    .filter(Boolean)
    .join(", ");
}

export function TaskOverview({ task }: { task: Task }) {
  return (
    <div className={styles.cards}>
      <Card title="Description">
        <p className={styles.description}>{task.description || "No description."}</p>
      </Card>
      <Card title="Result">
        {task.result?.summary ? (
          <p className={styles.description}>{task.result.summary}</p>
        ) : (
          <EmptyState small title={isFinished(task.phase) ? "No result" : "No result yet"}>
            {isFinished(task.phase)
              ? "The agent gave no final answer. See the log."
              : "The final answer appears here when the Task has finished."}
          </EmptyState>
        )}
      </Card>
      <OutputsCard task={task} />
      <Card title="Usage">
        <UsageFacts task={task} />
      </Card>
      {task.caches && task.caches.length > 0 && <CachesCard caches={task.caches} />}
      <Card title="Details">
        <Facts
          facts={[
            ["Namespace", task.namespace],
            [
              "Agent",
              task.agentRef && <ObjectLink kind="Agent" namespace={task.namespace} name={task.agentRef.name} />,
            ],
            [
              "Template",
              task.templateRef && (
                <ObjectLink kind="AgentTemplate" namespace={task.namespace} name={task.templateRef.name} />
              ),
            ],
            [
              "CronTask",
              task.cronTask && <ObjectLink kind="CronTask" namespace={task.namespace} name={task.cronTask} />,
            ],
            ["Reason", task.reason && humanize(task.reason)],
            ["Exit code", task.exitCode !== undefined && String(task.exitCode)],
            [
              "Run",
              task.runEpoch !== undefined &&
                `${task.runEpoch}${task.attempt && task.attempt > 1 ? `, attempt ${task.attempt}` : ""}`,
            ],
            ["Priority", task.priority ? String(task.priority) : undefined],
            ["Timeout", task.timeout && formatDuration(task.timeout)],
            ["Pod", task.podName && <code>{task.podName}</code>],
            ["Log", task.logs?.lines !== undefined && logFacts(task.logs)],
            ["Published", task.published && <PublishedLink key="published" published={task.published} />],
            ["Created", <Ago key="created" at={task.createdAt} />],
            ["Created by", createdBy(task)],
            [
              "After",
              task.dependsOn?.length
                ? task.dependsOn.map((dependency) => (
                    <Link key={dependency.task} to={`/tasks/${task.namespace}/${dependency.task}`}>
                      {dependency.task}{" "}
                    </Link>
                  ))
                : undefined,
            ],
            ["Labels", <LabelList key="labels" labels={task.labels} />],
          ]}
        />
      </Card>
      <Card title="Contexts" tools={<Tag>{task.contexts?.length ?? 0}</Tag>}>
        <ContextList contexts={task.contexts} />
      </Card>
      <Card title="Conditions">
        <ConditionList conditions={task.conditions} />
      </Card>
      <ApprovalsCard task={task} />
      {(task.runEpoch ?? 0) > 1 && <TaskRuns task={task} />}
    </div>
  );
}
