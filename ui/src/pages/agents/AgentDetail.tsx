import { useQuery } from "@tanstack/react-query";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import { AGENT } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { Agent, AgentExplain } from "../../api/types";
import { plural } from "../../lib/format";
import { agentStatus } from "../../lib/phase";
import { DetailPage } from "../DetailPage";
import { useNames } from "../useNames";
import { AgentActions } from "./AgentActions";
import { AgentConfiguration } from "./AgentConfiguration";
import { AgentOverview } from "./AgentOverview";
import { AgentShare } from "./AgentShare";
import { AgentTerminal } from "./AgentTerminal";

function removedWith(agent: Agent): string[] {
  return [
    `the Agent ${agent.name} with its Deployment and Service`,
    ...(agent.slots?.used ? [`${plural(agent.slots.used, "running Task")}, which fail with "Agent gone"`] : []),
    ...(agent.queueLength ? [`the queue position of ${plural(agent.queueLength, "waiting Task")}`] : []),
    ...(agent.persistence?.sessions ? ["the volume with its sessions"] : []),
    ...(agent.persistence?.workspace ? ["the volume with its workspace"] : []),
    ...(agent.share?.enabled ? ["its share link"] : []),
  ];
}

export default function AgentDetail() {
  const { namespace, name } = useNames();
  const query = useObject<Agent>(AGENT, namespace, name);
  const explain = useQuery({
    queryKey: keys.explain("Agent", namespace, name),
    queryFn: ({ signal }) => call<AgentExplain>(`${objectPath("agents", namespace, name)}/explain`, { signal }),
    enabled: query.data !== undefined,
  });
  return (
    <DetailPage kind={AGENT} query={query}>
      {(agent) => ({
        status: agentStatus({ ...agent, ready: agent.serverStatus?.ready }),
        sub: agent.profile,
        actions: <AgentActions agent={agent} />,
        removes: removedWith(agent),
        tabs: [
          { id: "overview", label: "Overview", content: () => <AgentOverview agent={agent} explain={explain} /> },
          {
            id: "configuration",
            label: "Configuration",
            content: () => <AgentConfiguration agent={agent} explain={explain} />,
          },
          { id: "terminal", label: "Terminal", content: () => <AgentTerminal agent={agent} /> },
          { id: "share", label: "Share", content: () => <AgentShare agent={agent} /> },
        ],
      })}
    </DetailPage>
  );
}
