import { Plus } from "lucide-react";
import { AGENT_TEMPLATE } from "../../api/kinds";
import type { AgentTemplate } from "../../api/types";
import { LinkButton } from "../../components/LinkButton";
import type { Column } from "../../list/columns";
import { useListState } from "../../list/listState";
import { ageColumn, nameColumns } from "../../list/nameColumns";
import { ResourceList } from "../../list/ResourceList";

const columns: Column<AgentTemplate>[] = [
  ...nameColumns<AgentTemplate>(AGENT_TEMPLATE),
  {
    title: "Executor image",
    width: "minmax(180px, 2fr)",
    phone: "line",
    cell: (template) => <code>{template.executorImage}</code>,
  },
  { title: "Model", width: "minmax(120px, 1fr)", phone: "none", cell: (template) => template.resolvedModel },
  { title: "Skills", width: "60px", end: true, phone: "none", cell: (template) => template.skillsCount ?? 0 },
  { title: "Agents", width: "64px", end: true, phone: "none", cell: (template) => template.agentCount ?? 0 },
  { title: "Tasks", width: "60px", end: true, phone: "none", cell: (template) => template.taskCount ?? 0 },
  ageColumn<AgentTemplate>(),
];

export default function TemplateList() {
  const list = useListState(["name", "labelSelector"], { by: "name", order: "asc" });
  const create = (
    <LinkButton variant="primary" icon={<Plus size={15} />} to="/templates/create">
      New template
    </LinkButton>
  );
  return (
    <ResourceList<AgentTemplate>
      kind={AGENT_TEMPLATE}
      list={list}
      columns={columns}
      actions={create}
      emptyAction={create}
    />
  );
}
