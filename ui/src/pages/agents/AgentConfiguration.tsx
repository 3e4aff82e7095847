import type { UseQueryResult } from "@tanstack/react-query";
import { KeyRound } from "lucide-react";
import type { Agent, AgentExplain } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { EmptyState } from "../../components/EmptyState";
import { Loaded } from "../../components/Loaded";
import { SimpleTable } from "../../components/SimpleTable";
import { Stack } from "../../components/Stack";
import { ContextList } from "../ContextList";
import detail from "../Detail.module.css";
import { SettingsTable } from "../SettingsTable";

/** What the Agent really runs with, after the merge, and where each value comes from. */
export function AgentConfiguration({ agent, explain }: { agent: Agent; explain: UseQueryResult<AgentExplain> }) {
  const synced = agent.serverStatus?.gitSyncStatuses ?? [];
  return (
    <Stack gap={4}>
      <Card title="Settings and where they come from" flush>
        <Loaded query={explain} label="the settings">
          {(told) => <SettingsTable settings={told.settings} error={told.settingsError} />}
        </Loaded>
      </Card>
      <div className={detail.cards}>
        <Card title="Contexts">
          <ContextList contexts={agent.contexts} />
        </Card>
        <Card title="Credentials" flush>
          {agent.credentials.length === 0 ? (
            <EmptyState small title="No credentials" icon={<KeyRound size={20} />}>
              Secrets that its spec names under credentials reach the agent as variables or files.
            </EmptyState>
          ) : (
            <SimpleTable
              label="Credentials"
              head={["Name", "Secret", "Reaches the agent as"]}
              rows={agent.credentials.map(({ name, secretRef, env, mountPath }) => ({
                key: name,
                cells: [
                  name,
                  <code key="secret">
                    {secretRef.name}
                    {secretRef.key ? `/${secretRef.key}` : ""}
                  </code>,
                  <code key="as">{env ?? mountPath ?? "environment"}</code>,
                ],
              }))}
            />
          )}
        </Card>
        {synced.length > 0 && (
          <Card title="Followed repositories" flush>
            <SimpleTable
              label="Followed repositories"
              head={["Context", "Commit", "Synced"]}
              rows={synced.map((entry) => ({
                key: entry.name,
                cells: [
                  entry.name,
                  <code key="c">{entry.commitHash?.slice(0, 12)}</code>,
                  <Ago key="a" at={entry.lastSynced} />,
                ],
              }))}
            />
          </Card>
        )}
      </div>
    </Stack>
  );
}
