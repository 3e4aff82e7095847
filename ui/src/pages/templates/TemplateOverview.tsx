import { useQuery } from "@tanstack/react-query";
import { Bot } from "lucide-react";
import { AGENT } from "../../api/kinds";
import { fetchPage, MAX_PAGE_SIZE } from "../../api/objects";
import type { Agent, AgentTemplate } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Badge } from "../../components/Badge";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { LinkButton } from "../../components/LinkButton";
import { Loaded } from "../../components/Loaded";
import { ObjectLink } from "../../components/ObjectLink";
import { SimpleTable } from "../../components/SimpleTable";
import { Tag } from "../../components/Tag";
import { agentStatus } from "../../lib/phase";
import { ContextList } from "../ContextList";
import detail from "../Detail.module.css";
import { LabelList } from "../LabelList";
import { TemplateTasks } from "./TemplateTasks";

/** Settings and Agents of a template. `where` are query parameters that preselect it in a form. */
export function TemplateOverview({ template, where }: { template: AgentTemplate; where: string }) {
  const { namespace, name } = template;
  const agents = useQuery({
    queryKey: ["Agent", "list", namespace, { template: name }, 0],
    queryFn: ({ signal }) => fetchPage<Agent>(AGENT, namespace, { template: name }, 0, MAX_PAGE_SIZE, signal),
  });
  return (
    <div className={detail.cards}>
      <Card title="Details">
        <Facts
          facts={[
            [
              "Model",
              template.modelRef ? (
                <ObjectLink
                  key="model"
                  kind="Model"
                  namespace={template.modelRef.namespace ?? namespace}
                  name={template.modelRef.name}
                />
              ) : (
                template.resolvedModel && <code>{template.resolvedModel}</code>
              ),
            ],
            ["Executor image", template.executorImage && <code>{template.executorImage}</code>],
            ["Agent image", template.agentImage && <code>{template.agentImage}</code>],
            ["Workspace", template.workspaceDir && <code>{template.workspaceDir}</code>],
            ["Service account", template.serviceAccountName],
            ["Max concurrent Tasks", template.maxConcurrentTasks !== undefined && String(template.maxConcurrentTasks)],
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
      <Card title="Agents using this template" flush>
        <Loaded query={agents} label="the Agents" lines={3}>
          {({ items }) =>
            items.length === 0 ? (
              <EmptyState
                small
                title="None"
                icon={<Bot size={20} />}
                action={<LinkButton to={`/agents/create?${where}`}>Create an Agent</LinkButton>}
              >
                Tasks can also use the template directly, each in its own Pod.
              </EmptyState>
            ) : (
              <SimpleTable
                label="Agents using this template"
                head={["Agent", "Status"]}
                rows={items.map((agent) => ({
                  key: agent.name,
                  cells: [
                    <ObjectLink key="name" kind="Agent" namespace={agent.namespace} name={agent.name} />,
                    <Badge key="status" status={agentStatus({ ...agent, ready: agent.serverStatus.ready })} />,
                  ],
                }))}
              />
            )
          }
        </Loaded>
      </Card>
      <TemplateTasks template={template} where={where} />
      <Card title="Contexts">
        <ContextList contexts={template.contexts} />
      </Card>
      <Card title="Conditions">
        <ConditionList conditions={template.conditions} />
      </Card>
    </div>
  );
}
