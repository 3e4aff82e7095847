import { Plus } from "lucide-react";
import { useState } from "react";
import { AGENT, TASK } from "../../api/kinds";
import { useChoices } from "../../api/objects";
import type { Agent, Task } from "../../api/types";
import { useNamespace } from "../../app/namespace";
import { LinkButton } from "../../components/LinkButton";
import { Select } from "../../components/Select";
import { useListState } from "../../list/listState";
import { ResourceList } from "../../list/ResourceList";
import { DeleteTaskDialog } from "./DeleteTaskDialog";
import { StopDialog } from "./StopDialog";
import { type TaskQuestion, taskActionColumn } from "./taskActionColumn";
import { taskColumns } from "./taskColumns";

const FILTERS = ["name", "phase", "agent", "template", "crontask", "reason", "stopped", "labelSelector"];
const PHASES = [
  { value: "", label: "Any status" },
  { value: "Queued,Pending", label: "Waiting" },
  { value: "Running", label: "Running" },
  { value: "Completed", label: "Completed" },
  { value: "Failed", label: "Failed" },
];

export default function TaskList() {
  const list = useListState(FILTERS);
  const [namespace] = useNamespace();
  const [question, setQuestion] = useState<TaskQuestion | undefined>();
  const agents = useChoices<Agent>(AGENT, namespace);
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to="/tasks/create">
      New Task
    </LinkButton>
  );
  const phase = list.filters.phase ?? "";
  const phases = PHASES.some((option) => option.value === phase) ? PHASES : [...PHASES, { value: phase, label: phase }];
  const agent = list.filters.agent ?? "";
  const names = (agents.data ?? []).map((item) => item.name);
  const reason = list.filters.reason;
  return (
    <>
      <ResourceList<Task>
        kind={TASK}
        list={list}
        columns={[...taskColumns, taskActionColumn(setQuestion)]}
        actions={create}
        emptyAction={create}
        filters={
          <>
            <Select
              aria-label="Status"
              value={phase}
              options={phases}
              onValue={(value) => list.setFilter("phase", value)}
            />
            {(names.length > 0 || agent !== "") && (
              <Select
                aria-label="Agent"
                value={agent}
                options={[
                  { value: "", label: "Any Agent" },
                  ...(agent !== "" && !names.includes(agent) ? [agent, ...names] : names),
                ]}
                onValue={(value) => list.setFilter("agent", value)}
              />
            )}
            {reason && (
              <Select
                aria-label="Reason"
                value={reason}
                options={[{ value: "", label: "Any reason" }, reason]}
                onValue={(value) => list.setFilter("reason", value)}
              />
            )}
          </>
        }
      />
      {question && (
        <>
          <StopDialog task={question.task} open={question.ask === "stop"} onClose={() => setQuestion(undefined)} />
          <DeleteTaskDialog
            task={question.task}
            open={question.ask === "delete"}
            onClose={() => setQuestion(undefined)}
          />
        </>
      )}
    </>
  );
}
