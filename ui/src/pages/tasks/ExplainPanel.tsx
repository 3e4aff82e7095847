import type { Explain } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Facts } from "../../components/Facts";
import { Meter } from "../../components/Meter";
import { ObjectLink } from "../../components/ObjectLink";
import { Stack } from "../../components/Stack";
import { plural, sentence } from "../../lib/format";
import { taskStatus } from "../../lib/phase";
import { span } from "../../lib/time";
import { CauseChain } from "../CauseChain";
import styles from "./ExplainPanel.module.css";

/** The status of a Task explained down to the root cause, with suggested actions. */
export function ExplainPanel({ explain, namespace }: { explain: Explain; namespace: string }) {
  const { queue, quota, dependencies, next } = explain;
  return (
    <Stack gap={4}>
      {explain.chain.length > 0 ? (
        <CauseChain chain={explain.chain} namespace={namespace} />
      ) : (
        <p>{sentence(explain.message ?? "No problems found.")}</p>
      )}
      {queue && (
        <Stack gap={2}>
          <Facts
            facts={[
              [
                "Queue of",
                queue.target && (
                  <ObjectLink {...queue.target} namespace={queue.target.namespace ?? namespace} withKind />
                ),
              ],
              ["Position", queue.position !== undefined && `${queue.position} of ${queue.waiting ?? queue.position}`],
              [
                "Slots",
                queue.running !== undefined && (
                  <Meter label="Slots in use" used={queue.running} total={queue.maxConcurrentTasks} />
                ),
              ],
            ]}
          />
          {queue.ahead && queue.ahead.length > 0 && (
            <div>
              <h3>Ahead of this Task</h3>
              <ul className={styles.ahead}>
                {queue.ahead.map((task) => (
                  <li key={task.name}>
                    <ObjectLink kind="Task" namespace={namespace} name={task.name} />{" "}
                    <Badge status={taskStatus(task)} />
                  </li>
                ))}
              </ul>
            </div>
          )}
        </Stack>
      )}
      {quota && (
        <Facts
          facts={[
            ["Quota", `${plural(quota.maxTaskStarts, "start")} in ${span(quota.windowSeconds)}`],
            ["Used", <Meter key="used" label="Starts used" used={quota.used} total={quota.maxTaskStarts} />],
            ["Next start", quota.nextStartAt && <Ago at={quota.nextStartAt} />],
          ]}
        />
      )}
      {dependencies && dependencies.length > 0 && (
        <div>
          <h3>Dependencies</h3>
          <ul className={styles.ahead}>
            {dependencies.map((dependency) => (
              <li key={dependency.task}>
                <ObjectLink kind="Task" namespace={namespace} name={dependency.task} />{" "}
                {dependency.exists ? <Badge status={taskStatus(dependency)} /> : "does not exist"}
                {dependency.met ? " ✓" : ` requires ${dependency.condition ?? "Succeeded"}`}
              </li>
            ))}
          </ul>
        </div>
      )}
      {next && next.length > 0 && (
        <div className={styles.next}>
          <h3>Suggested actions</h3>
          <ul className="bullets">
            {next.map((advice) => (
              <li key={advice}>{sentence(advice)}</li>
            ))}
          </ul>
        </div>
      )}
    </Stack>
  );
}
