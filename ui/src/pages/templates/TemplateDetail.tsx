import { useQuery } from "@tanstack/react-query";
import { MoreHorizontal, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { AGENT, AGENT_TEMPLATE } from "../../api/kinds";
import { fetchPage, MOST_AT_ONCE, useObject } from "../../api/objects";
import { useRights } from "../../api/rights";
import type { Agent, AgentTemplate } from "../../api/types";
import { Page } from "../../app/Page";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { LinkButton } from "../../components/LinkButton";
import { Menu } from "../../components/Menu";
import { ObjectLink } from "../../components/ObjectLink";
import { PageHeader } from "../../components/PageHeader";
import { SimpleTable } from "../../components/SimpleTable";
import { Tabs } from "../../components/Tabs";
import { Tag } from "../../components/Tag";
import { YamlPanel } from "../../editor/YamlPanel";
import { plural } from "../../lib/format";
import { agentStatus } from "../../lib/phase";
import { ContextList } from "../ContextList";
import { DeleteDialog } from "../DeleteDialog";
import { DetailState } from "../DetailState";
import { LabelList } from "../LabelList";
import detail from "../tasks/TaskDetail.module.css";
import { useNames } from "../useNames";
import { useTab } from "../useTab";

export default function TemplateDetail() {
  const { namespace, name } = useNames();
  const [tab, setTab] = useTab("overview");
  const [deleting, setDeleting] = useState(false);
  const may = useRights(namespace);
  const query = useObject<AgentTemplate>(AGENT_TEMPLATE, namespace, name);
  const agents = useQuery({
    queryKey: ["Agent", "list", namespace, { template: name }, 0],
    queryFn: ({ signal }) => fetchPage<Agent>(AGENT, namespace, { template: name }, 0, MOST_AT_ONCE, signal),
    enabled: query.data !== undefined,
  });
  const template = query.data;
  if (!template || query.error) return <DetailState kind={AGENT_TEMPLATE} name={name} query={query} />;
  const where = `template=${encodeURIComponent(name)}&namespace=${encodeURIComponent(namespace)}`;
  const overview = (
    <div className={detail.cards}>
      <Card title="Facts">
        <Facts
          facts={[
            [
              "Model",
              template.modelRef && (
                <ObjectLink
                  kind="Model"
                  namespace={template.modelRef.namespace ?? namespace}
                  name={template.modelRef.name}
                />
              ),
            ],
            ["Executor image", template.executorImage && <code>{template.executorImage}</code>],
            ["Agent image", template.agentImage && <code>{template.agentImage}</code>],
            ["Workspace", template.workspaceDir && <code>{template.workspaceDir}</code>],
            ["Service account", template.serviceAccountName],
            ["Tasks at once", template.maxConcurrentTasks !== undefined && String(template.maxConcurrentTasks)],
            [
              "Skills",
              template.skills?.length
                ? template.skills.map((skill) => <Tag key={skill.name}>{skill.name}</Tag>)
                : undefined,
            ],
            [
              "Plugins",
              template.plugins?.length
                ? template.plugins.map((plugin) => <Tag key={plugin.name}>{plugin.name}</Tag>)
                : undefined,
            ],
            ["Created", <Ago key="created" at={template.createdAt} />],
            ["Labels", <LabelList key="labels" labels={template.labels} />],
          ]}
        />
      </Card>
      <Card title="Agents that build on it" flush>
        {agents.data && agents.data.items.length === 0 ? (
          <EmptyState
            small
            title="None"
            action={<LinkButton to={`/agents/create?${where}`}>Create an Agent</LinkButton>}
          />
        ) : (
          <SimpleTable
            label="Agents that build on it"
            head={["Agent", "Status"]}
            rows={(agents.data?.items ?? []).map((agent) => ({
              key: agent.name,
              cells: [
                <ObjectLink key="name" kind="Agent" namespace={agent.namespace} name={agent.name} />,
                <Badge key="status" status={agentStatus({ ...agent, ready: agent.serverStatus?.ready })} />,
              ],
            }))}
          />
        )}
      </Card>
      <Card title="Contexts">
        <ContextList contexts={template.contexts} />
      </Card>
      <Card title="Conditions">
        <ConditionList conditions={template.conditions} />
      </Card>
    </div>
  );
  return (
    <Page>
      <PageHeader
        title={template.name}
        crumbs={[{ label: "Templates", to: "/templates" }, { label: template.namespace }]}
        sub={`${plural(template.agentCount ?? 0, "Agent")}, ${plural(template.taskCount ?? 0, "Task")}`}
        actions={
          <>
            <LinkButton look="primary" icon={<Plus size={15} />} to={`/tasks/create?${where}`}>
              New Task
            </LinkButton>
            <LinkButton to={`/agents/create?${where}`}>New Agent</LinkButton>
            <Menu
              label="More actions"
              icon={<MoreHorizontal size={16} />}
              items={[
                {
                  label: "Delete",
                  icon: <Trash2 size={15} />,
                  danger: true,
                  disabled: !may("delete agenttemplates"),
                  onSelect: () => setDeleting(true),
                },
              ]}
            />
          </>
        }
      />
      <Tabs
        label="Parts of the template"
        selected={tab}
        onSelect={setTab}
        tabs={[
          { id: "overview", label: "Overview", content: () => overview },
          {
            id: "yaml",
            label: "YAML",
            content: () => <YamlPanel kind={AGENT_TEMPLATE} namespace={namespace} name={name} />,
          },
        ]}
      />
      <DeleteDialog
        kind={AGENT_TEMPLATE}
        namespace={namespace}
        name={name}
        open={deleting}
        leaveTo="/templates"
        consequences={[
          `the template ${name}`,
          ...(template.agentCount
            ? [`the settings that ${plural(template.agentCount, "Agent")} took from it: they go on as Pending`]
            : []),
        ]}
        onClose={() => setDeleting(false)}
      />
    </Page>
  );
}
