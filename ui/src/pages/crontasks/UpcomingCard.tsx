import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call, objectPath } from "../../api/client";
import { keys } from "../../api/keys";
import type { CronTask, Upcoming } from "../../api/types";
import { Card } from "../../components/Card";
import { ErrorState } from "../../components/ErrorState";
import { Notice } from "../../components/Notice";
import { Select } from "../../components/Select";
import { Skeleton } from "../../components/Skeleton";
import { Stack } from "../../components/Stack";
import { CronStrip } from "./CronStrip";
import { blockedBy } from "./cronStatus";
import { zoneChoices } from "./zones";

/** The next runs in a selectable time zone. */
export function UpcomingCard({ cron }: { cron: CronTask }) {
  const [zone, setZone] = useState(cron.timeZone ?? "UTC");
  const upcoming = useQuery({
    queryKey: keys.upcoming(cron.namespace, cron.name, zone),
    queryFn: ({ signal }) =>
      call<Upcoming>(`${objectPath("crontasks", cron.namespace, cron.name)}/upcoming`, {
        query: { count: 100, timeZone: zone },
        signal,
      }),
    placeholderData: (previous) => previous,
  });
  return (
    <Card
      title="Next runs"
      tools={
        <Select
          aria-label="Show in time zone"
          value={zone}
          options={zoneChoices(cron.timeZone)}
          onValue={setZone}
          style={{ width: "auto" }}
        />
      }
    >
      <Stack gap={3}>
        {cron.suspend && <Notice tone="idle">Suspended: no runs start until the CronTask is resumed.</Notice>}
        {blockedBy(cron) ? (
          <p className="quiet">No runs are scheduled while the CronTask is blocked.</p>
        ) : upcoming.error ? (
          <ErrorState small error={upcoming.error} onRetry={() => upcoming.refetch()} />
        ) : upcoming.data ? (
          <CronStrip upcoming={upcoming.data} />
        ) : (
          <Skeleton height={104} />
        )}
      </Stack>
    </Card>
  );
}
