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
      {(explanation) => (
        <Stack gap={4}>
          <Card title="Status explained">
            <ExplainPanel explain={explanation} namespace={namespace} />
          </Card>
          <Card title="Effective settings" flush>
            <SettingsTable settings={explanation.settings} error={explanation.settingsError} />
          </Card>
        </Stack>
      )}
    </Loaded>
  );
}
