import { useOutputs } from "../../api/results";
import type { Task } from "../../api/types";
import { Card } from "../../components/Card";
import { CopyButton } from "../../components/CopyButton";
import { SimpleTable } from "../../components/SimpleTable";
import { Tag } from "../../components/Tag";
import { isFinished } from "../../lib/phase";
import styles from "./OutputsCard.module.css";

/** The outputs of the run, by key. */
export function OutputsCard({ task }: { task: Task }) {
  // An event about the Task, which replaces what is shown, has no outputs.
  const stored = useOutputs(task, isFinished(task.phase));
  const outputs = Object.entries(stored.data?.outputs ?? task.result?.outputs ?? {});
  if (outputs.length === 0) return null;
  return (
    <Card title="Outputs" tools={<Tag>{outputs.length}</Tag>} flush>
      <SimpleTable
        label="Outputs"
        head={["Key", "Value", "Copy"]}
        rows={outputs.map(([key, value]) => ({
          key,
          cells: [
            <code key="key">{key}</code>,
            <span key="value" className={styles.value}>
              {value}
            </span>,
            <span key="copy" className={styles.copy}>
              <CopyButton text={value} label={`Copy ${key}`} />
            </span>,
          ],
        }))}
      />
    </Card>
  );
}
