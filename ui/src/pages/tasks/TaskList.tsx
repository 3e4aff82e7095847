import { Plus } from "lucide-react";
import { useState } from "react";
import { AGENT, AGENT_TEMPLATE, TASK } from "../../api/kinds";
import { useChoices } from "../../api/objects";
import type { Agent, AgentTemplate, Task } from "../../api/types";
import { useNamespace } from "../../app/namespace";
import { LinkButton } from "../../components/LinkButton";
import { Select } from "../../components/Select";
import { type ListControls, useListState } from "../../list/listState";
import { ResourceList } from "../../list/ResourceList";
import { useSelection } from "../../list/selection";
import { BulkBar } from "./BulkBar";
import { DeleteTaskDialog } from "./DeleteTaskDialog";
import { StopDialog } from "./StopDialog";
import { type TaskQuestion, taskActionColumn } from "./taskActionColumn";
import { taskColumns } from "./taskColumns";

/** The options of the status filter, named as the badges are. */
const PHASES = [
  { value: "", label: "Any status" },
  { value: "Queued,Pending", label: "Waiting" },
  { value: "Running", label: "Running" },
  { value: "Completed", label: "Completed" },
  { value: "Stopped", label: "Stopped" },
  { value: "Failed", label: "Failed" },
];

const FILTERS = ["search", "name", "phase", "agent", "template", "crontask", "reason", "labelSelector"];

export default function TaskList() {
  const list = useListState(FILTERS);
  const [question, setQuestion] = useState<TaskQuestion | undefined>();
  const selection = useSelection<Task>();
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to="/tasks/create">
      New Task
    </LinkButton>
  );
  return (
    <>
      <ResourceList<Task>
        kind={TASK}
        list={list}
        search
        columns={[...taskColumns, taskActionColumn(setQuestion)]}
        selection={selection}
        overlay={<BulkBar selection={selection} />}
        actions={create}
        emptyAction={create}
        filters={<TaskFilters list={list} />}
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

/** Status, Agent or template, and the filters that links of other pages set. */
function TaskFilters({ list }: { list: ListControls }) {
  const [namespace] = useNamespace();
  const agents = useChoices<Agent>(AGENT, namespace);
  const templates = useChoices<AgentTemplate>(AGENT_TEMPLATE, namespace);
  const { phase = "", agent, template } = list.filters;
  const phases = PHASES.some((option) => option.value === phase) ? PHASES : [...PHASES, { value: phase, label: phase }];
  const runsOn = agent ? `agent/${agent}` : template ? `template/${template}` : "";
  const names = (found: { name: string }[] | undefined, chosen: string | undefined) =>
    [...new Set([...(chosen ? [chosen] : []), ...(found ?? []).map(({ name }) => name)])].sort();
  const targets = [
    ...names(agents.data, agent).map((name) => ({ value: `agent/${name}`, label: `Agent ${name}` })),
    ...names(templates.data, template).map((name) => ({ value: `template/${name}`, label: `Template ${name}` })),
  ];
  return (
    <>
      <Select aria-label="Status" value={phase} options={phases} onValue={(value) => list.setFilter("phase", value)} />
      {targets.length > 0 && (
        <Select
          aria-label="Runs on"
          value={runsOn}
          options={[{ value: "", label: "Any Agent or template" }, ...targets]}
          onValue={(value) => {
            const [kind, name = ""] = value.split("/");
            list.setFilters({ agent: kind === "agent" ? name : "", template: kind === "template" ? name : "" });
          }}
        />
      )}
      {(["crontask", "reason"] as const).map((name) => {
        const value = list.filters[name];
        const label = name === "crontask" ? "CronTask" : "Reason";
        return (
          value && (
            <Select
              key={name}
              aria-label={label}
              value={value}
              options={[
                { value: "", label: `Any ${label === "Reason" ? "reason" : label}` },
                { value, label: name === "crontask" ? `CronTask ${value}` : value },
              ]}
              onValue={(next) => list.setFilter(name, next)}
            />
          )
        );
      })}
    </>
  );
}
