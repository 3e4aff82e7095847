import type { UseQueryResult } from "@tanstack/react-query";
import type { Agent, AgentExplain } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { Command } from "../../components/Command";
import { ConditionList } from "../../components/ConditionList";
import { EmptyState } from "../../components/EmptyState";
import { Facts } from "../../components/Facts";
import { LinkButton } from "../../components/LinkButton";
import { Loaded } from "../../components/Loaded";
import { Meter } from "../../components/Meter";
import { ObjectLink } from "../../components/ObjectLink";
import { Stack } from "../../components/Stack";
import { formatDuration, span } from "../../lib/time";
import { CauseChain } from "../CauseChain";
import detail from "../Detail.module.css";
import { LabelList } from "../LabelList";
import { AgentQueue } from "./AgentQueue";

/** Commands to use the Agent from a terminal. */
function commandsFor(agent: Agent): [string, string][] {
  const names = `${agent.name} -n ${agent.namespace}`;
  const password = agent.serverStatus?.passwordSecret;
  const commands: [string, string][] = [
    ["Attach a terminal", `kubeopencode agent attach ${names}`],
    ["Run a Task", `kubeopencode run "…" --agent ${agent.name} -n ${agent.namespace} --follow`],
    [
      "Forward the server port",
      `kubectl port-forward -n ${agent.namespace} service/${agent.serverStatus?.serviceName ?? agent.name} ${agent.serverStatus?.port ?? 4096}`,
    ],
  ];
  if (password) {
    commands.push([
      "The server's password, for the user opencode",
      `kubectl get secret -n ${agent.namespace} ${password.name} -o go-template='{{index .data "${password.key}" | base64decode}}'`,
    ]);
  }
  return commands;
}

export function AgentOverview({ agent, explain }: { agent: Agent; explain: UseQueryResult<AgentExplain> }) {
  const server = agent.serverStatus;
  return (
    <div className={detail.cards}>
      <Card title="Health">
        <Loaded query={explain} label="its health" lines={3}>
          {({ chain }) =>
            chain.length > 0 ? (
              <CauseChain chain={chain} namespace={agent.namespace} />
            ) : (
              <p>Healthy: no problems found.</p>
            )
          }
        </Loaded>
      </Card>
      <Card
        title="Work"
        tools={
          <LinkButton
            small
            to={`/tasks?agent=${encodeURIComponent(agent.name)}&namespace=${encodeURIComponent(agent.namespace)}`}
          >
            All Tasks
          </LinkButton>
        }
      >
        <Stack gap={3}>
          <Facts
            facts={[
              [
                "Slots",
                <Meter key="slots" label="Slots in use" used={agent.slots?.used ?? 0} total={agent.slots?.total} />,
              ],
              ["Waiting", String(agent.queueLength ?? 0)],
            ]}
          />
          <AgentQueue agent={agent} explain={explain.data} />
        </Stack>
      </Card>
      <Card title="Connect">
        <Stack gap={3}>
          {commandsFor(agent).map(([what, command]) => (
            <Stack key={what} gap={1}>
              <span className="quiet">{what}</span>
              <Command text={command} />
            </Stack>
          ))}
        </Stack>
      </Card>
      <Card title="Details">
        <Facts
          facts={[
            [
              "Template",
              agent.templateRef && (
                <ObjectLink kind="AgentTemplate" namespace={agent.namespace} name={agent.templateRef.name} />
              ),
            ],
            ["Model", agent.resolvedModel && <code>{agent.resolvedModel}</code>],
            ["Address", server?.url && <code>{server.url}</code>],
            ["Workspace", agent.workspaceDir && <code>{agent.workspaceDir}</code>],
            ["Service account", agent.serviceAccountName],
            ["Quota", agent.quota && `${agent.quota.maxTaskStarts} starts in ${span(agent.quota.windowSeconds)}`],
            ["Standby", agent.standby && `after ${formatDuration(agent.standby.idleTimeout)} idle`],
            ["Idle since", server?.idleSince && <Ago at={server.idleSince} />],
            ["Created", <Ago key="created" at={agent.createdAt} />],
            ["Labels", <LabelList key="labels" labels={agent.labels} />],
          ]}
        />
      </Card>
      <Card title="Tools">
        {agent.tools && agent.tools.length > 0 ? (
          <Facts
            facts={agent.tools.map((tool) => [
              tool.ref.name,
              <span key={tool.ref.name}>
                <ObjectLink
                  kind={tool.ref.kind}
                  namespace={tool.ref.namespace ?? agent.namespace}
                  name={tool.ref.name}
                  withKind
                />
                {tool.count !== undefined && ` · ${tool.count} tools`}
                {tool.missing?.length ? ` · missing: ${tool.missing.join(", ")}` : ""}
              </span>,
            ])}
          />
        ) : (
          <EmptyState small title="No additional tools">
            The built-in tools of OpenCode are available: files, shell, search.
          </EmptyState>
        )}
      </Card>
      <Card title="Conditions">
        <ConditionList conditions={agent.conditions} />
      </Card>
    </div>
  );
}
