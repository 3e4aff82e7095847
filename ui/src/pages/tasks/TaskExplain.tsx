import type { UseQueryResult } from "@tanstack/react-query";
import type { Explain } from "../../api/types";
import { Card } from "../../components/Card";
import { Loaded } from "../../components/Loaded";
import { Stack } from "../../components/Stack";
import { SettingsTable } from "../SettingsTable";
import { ExplainPanel } from "./ExplainPanel";

export function TaskExplain({ explain, namespace }: { explain: UseQueryResult<Explain>; namespace: string }) {
  return (
    <Loaded query={explain} label="the explanation">
      {(told) => (
        <Stack gap={4}>
          <Card title="Why it is where it is">
            <ExplainPanel explain={told} namespace={namespace} />
          </Card>
          <Card title="Settings and where they come from" flush>
            <SettingsTable settings={told.settings} error={told.settingsError} />
          </Card>
        </Stack>
      )}
    </Loaded>
  );
}
