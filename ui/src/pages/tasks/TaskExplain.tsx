import type { UseQueryResult } from "@tanstack/react-query";
import type { Explain } from "../../api/types";
import { Card } from "../../components/Card";
import { ErrorState } from "../../components/ErrorState";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { SettingsTable } from "../SettingsTable";
import { ExplainPanel } from "./ExplainPanel";

export function TaskExplain({ explain, namespace }: { explain: UseQueryResult<Explain>; namespace: string }) {
  if (explain.error) return <ErrorState small error={explain.error} onRetry={() => explain.refetch()} />;
  if (!explain.data) return <SkeletonBlock lines={8} label="Loading the explanation" />;
  return (
    <Stack gap={4}>
      <Card title="Why it is where it is">
        <ExplainPanel explain={explain.data} namespace={namespace} />
      </Card>
      <Card title="Settings and where they come from" flush>
        <SettingsTable settings={explain.data.settings} error={explain.data.settingsError} />
      </Card>
    </Stack>
  );
}
