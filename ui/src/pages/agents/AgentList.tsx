import { Plus } from "lucide-react";
import { AGENT } from "../../api/kinds";
import type { Agent } from "../../api/types";
import { Badge } from "../../components/Badge";
import { LinkButton } from "../../components/LinkButton";
import { Meter } from "../../components/Meter";
import { ObjectLink } from "../../components/ObjectLink";
import { Select } from "../../components/Select";
import { agentStatus } from "../../lib/phase";
import type { Column } from "../../list/columns";
import { useListState } from "../../list/listState";
import { ageColumn, nameColumns } from "../../list/nameColumns";
import { ResourceList } from "../../list/ResourceList";

const columns: Column<Agent>[] = [
  ...nameColumns<Agent>(AGENT),
  {
    title: "Status",
    width: "116px",
    phone: "side",
    cell: (agent) => <Badge status={agentStatus({ ...agent, ready: agent.serverStatus?.ready })} />,
  },
  {
    title: "Profile",
    width: "minmax(140px, 1.6fr)",
    phone: "none",
    cell: (agent) => <span title={agent.profile}>{agent.profile}</span>,
  },
  {
    title: "Template",
    width: "minmax(90px, 1fr)",
    phone: "none",
    cell: (agent) =>
      agent.templateRef && (
        <ObjectLink kind="AgentTemplate" namespace={agent.namespace} name={agent.templateRef.name} />
      ),
  },
  {
    title: "Slots",
    width: "124px",
    phone: "none",
    cell: (agent) => (
      <Meter label={`Slots of ${agent.name}`} used={agent.slots?.used ?? 0} total={agent.slots?.total} />
    ),
  },
  {
    title: "Waiting",
    width: "64px",
    end: true,
    phone: "none",
    cell: (agent) => (agent.queueLength ? `${agent.queueLength}` : <span className="quiet">0</span>),
  },
  ageColumn<Agent>(),
];

const PHASES = [
  { value: "", label: "Any status" },
  { value: "Running", label: "Running" },
  { value: "Pending", label: "Pending" },
  { value: "Suspended", label: "Suspended" },
  { value: "Failed", label: "Failed" },
];

export default function AgentList() {
  const list = useListState(["name", "phase", "template", "ready", "labelSelector"], { by: "name", order: "asc" });
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to="/agents/create">
      New Agent
    </LinkButton>
  );
  return (
    <ResourceList<Agent>
      kind={AGENT}
      list={list}
      columns={columns}
      actions={create}
      emptyAction={create}
      filters={
        <Select
          aria-label="Status"
          value={list.filters.phase ?? ""}
          options={PHASES}
          onValue={(value) => list.setFilter("phase", value)}
        />
      }
    />
  );
}
