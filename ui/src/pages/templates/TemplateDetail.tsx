import { Plus } from "lucide-react";
import { AGENT_TEMPLATE } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { AgentTemplate } from "../../api/types";
import { LinkButton } from "../../components/LinkButton";
import { plural } from "../../lib/format";
import { DetailPage } from "../DetailPage";
import { useNames } from "../useNames";
import { TemplateOverview } from "./TemplateOverview";

/** `2 Agents, 12 Tasks (1 active)`. */
function usedBy({ agentCount, taskCount, activeTaskCount }: AgentTemplate): string {
  const active = activeTaskCount > 0 ? ` (${activeTaskCount} active)` : "";
  return `${plural(agentCount, "Agent")}, ${plural(taskCount, "Task")}${active}`;
}

export default function TemplateDetail() {
  const { namespace, name } = useNames();
  const query = useObject<AgentTemplate>(AGENT_TEMPLATE, namespace, name);
  const where = `template=${encodeURIComponent(name)}&namespace=${encodeURIComponent(namespace)}`;
  return (
    <DetailPage kind={AGENT_TEMPLATE} query={query}>
      {(template) => ({
        sub: usedBy(template),
        actions: (
          <>
            <LinkButton variant="primary" icon={<Plus size={15} />} to={`/tasks/create?${where}`}>
              New Task
            </LinkButton>
            <LinkButton to={`/agents/create?${where}`}>New Agent</LinkButton>
          </>
        ),
        removes: [
          `the template ${name}`,
          ...(template.agentCount
            ? [`the settings that ${plural(template.agentCount, "Agent")} took from it: they go on as Pending`]
            : []),
        ],
        tabs: [
          {
            id: "overview",
            label: "Overview",
            content: () => <TemplateOverview template={template} where={where} />,
          },
        ],
      })}
    </DetailPage>
  );
}
