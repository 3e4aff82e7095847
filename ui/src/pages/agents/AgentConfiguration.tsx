import type { UseQueryResult } from "@tanstack/react-query";
import type { Agent, AgentExplain } from "../../api/types";
import { Ago } from "../../components/Ago";
import { Card } from "../../components/Card";
import { ErrorState } from "../../components/ErrorState";
import { SimpleTable } from "../../components/SimpleTable";
import { SkeletonBlock } from "../../components/SkeletonBlock";
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
        {explain.error ? (
          <ErrorState small error={explain.error} onRetry={() => explain.refetch()} />
        ) : explain.data ? (
          <SettingsTable settings={explain.data.settings} error={explain.data.settingsError} />
        ) : (
          <SkeletonBlock lines={8} />
        )}
      </Card>
      <div className={detail.cards}>
        <Card title="Contexts">
          <ContextList contexts={agent.contexts} />
        </Card>
        <Card title="Credentials" flush>
          <SimpleTable
            label="Credentials"
            head={["Name", "Secret", "Reaches the agent as"]}
            rows={(agent.credentials ?? []).map((credential) => ({
              key: credential.name,
              cells: [
                credential.name,
                <code key="secret">
                  {credential.secretRef?.name}
                  {credential.secretRef?.key ? `/${credential.secretRef.key}` : ""}
                </code>,
                <code key="as">{credential.env ?? credential.mountPath ?? "environment"}</code>,
              ],
            }))}
          />
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
