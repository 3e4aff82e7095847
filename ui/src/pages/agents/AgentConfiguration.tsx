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

/** The effective settings of the Agent after the merge, with their sources. */
export function AgentConfiguration({ agent, explain }: { agent: Agent; explain: UseQueryResult<AgentExplain> }) {
  const synced = agent.serverStatus?.gitSyncStatuses ?? [];
  return (
    <Stack gap={4}>
      <Card title="Effective settings" flush>
        <Loaded query={explain} label="the settings">
          {(explanation) => <SettingsTable settings={explanation.settings} error={explanation.settingsError} />}
        </Loaded>
      </Card>
      <div className={detail.cards}>
        <Card title="Contexts">
          <ContextList contexts={agent.contexts} />
        </Card>
        <Card title="Credentials" flush>
          {agent.credentials.length === 0 ? (
            <EmptyState small title="No credentials" icon={<KeyRound size={20} />}>
              Secrets in spec.credentials are passed to the agent as environment variables or files.
            </EmptyState>
          ) : (
            <SimpleTable
              label="Credentials"
              head={["Name", "Secret", "Available as"]}
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
          <Card title="Synced repositories" flush>
            <SimpleTable
              label="Synced repositories"
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
