import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import type { PermissionAnswer, Task } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { SimpleTable } from "../../components/SimpleTable";
import { Tag } from "../../components/Tag";
import styles from "../Detail.module.css";

const REPLIES: Record<PermissionAnswer["reply"], string> = {
  once: "Allowed once",
  always: "Allowed always",
  reject: "Rejected",
};
const VIA: Record<PermissionAnswer["via"], string> = { Page: "Page", CommandLine: "Command line", Api: "REST API" };

/** The audit of approvals: who answered which permission request, in all runs. Tasks without answers have no card. */
export function ApprovalsCard({ task }: { task: Task }) {
  const answers = useQuery({
    // An answer changes the condition of the Task.
    queryKey: [...keys.approvals(task.namespace, task.name), task.awaitingApproval ?? false, task.phase],
    queryFn: ({ signal }) =>
      call<{ approvals: PermissionAnswer[] }>(`${objectPath("tasks", task.namespace, task.name)}/approvals`, {
        signal,
      }),
    enabled: task.agentRef !== undefined && task.runEpoch !== undefined,
    placeholderData: (before) => before,
    retry: false,
  });
  const approvals = answers.data?.approvals ?? [];
  if (approvals.length === 0) return null;
  return (
    <Card title="Approvals" tools={<Tag>{approvals.length}</Tag>} flush className={styles.whole}>
      <SimpleTable
        label="Approvals"
        head={["Permission", "Answer", "By", "Via", "When", "Run"]}
        wide={["Via", "Run"]}
        rows={approvals.map((answer) => ({
          // Two people may answer one request at the same time.
          key: `${answer.epoch}/${answer.request}/${answer.at}`,
          cells: [
            <span key="permission">
              {answer.permission} <code>{answer.patterns.join(", ")}</code>
            </span>,
            <span key="answer" title={answer.message}>
              {REPLIES[answer.reply]}
              {answer.message && `: ${answer.message}`}
              {!answer.accepted && " (the agent may not have received it)"}
            </span>,
            answer.by,
            VIA[answer.via],
            <Ago key="at" at={answer.at} />,
            String(answer.epoch),
          ],
        }))}
      />
    </Card>
  );
}
