import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import { AGENT } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { Agent, AgentExplain } from "../../api/types";
import { Page } from "../../app/Page";
import { Badge } from "../../components/Badge";
import { PageHeader } from "../../components/PageHeader";
import { Tabs } from "../../components/Tabs";
import { YamlPanel } from "../../editor/YamlPanel";
import { agentStatus } from "../../lib/phase";
import { DetailState } from "../DetailState";
import { useNames } from "../useNames";
import { useTab } from "../useTab";
import { AgentActions } from "./AgentActions";
import { AgentConfiguration } from "./AgentConfiguration";
import { AgentOverview } from "./AgentOverview";
import { AgentShare } from "./AgentShare";
import { AgentTerminal } from "./AgentTerminal";

export default function AgentDetail() {
  const { namespace, name } = useNames();
  const [tab, setTab] = useTab("overview");
  const query = useObject<Agent>(AGENT, namespace, name);
  const explain = useQuery({
    queryKey: keys.explain("Agent", namespace, name),
    queryFn: ({ signal }) => call<AgentExplain>(`${objectPath("agents", namespace, name)}/explain`, { signal }),
    enabled: query.data !== undefined,
  });
  const agent = query.data;
  if (!agent || query.error) return <DetailState kind={AGENT} name={name} query={query} />;
  return (
    <Page>
      <PageHeader
        title={agent.name}
        badge={<Badge status={agentStatus({ ...agent, ready: agent.serverStatus?.ready })} />}
        crumbs={[{ label: "Agents", to: "/agents" }, { label: agent.namespace }]}
        sub={agent.profile}
        actions={<AgentActions agent={agent} />}
      />
      <Tabs
        label="Parts of the Agent"
        selected={tab}
        onSelect={setTab}
        tabs={[
          { id: "overview", label: "Overview", content: () => <AgentOverview agent={agent} explain={explain.data} /> },
          {
            id: "configuration",
            label: "Configuration",
            content: () => <AgentConfiguration agent={agent} explain={explain} />,
          },
          { id: "terminal", label: "Terminal", content: () => <AgentTerminal agent={agent} /> },
          { id: "share", label: "Share", content: () => <AgentShare agent={agent} /> },
          { id: "yaml", label: "YAML", content: () => <YamlPanel kind={AGENT} namespace={namespace} name={name} /> },
        ]}
      />
    </Page>
  );
}
