import { useQuery } from "@tanstack/react-query";
import { useDeferredValue } from "react";
import { call } from "../../api/client";
import { keys } from "../../api/keys";
import type { Upcoming } from "../../api/types";
import { Button } from "../../components/Button";
import { Field } from "../../components/Field";
import { Select } from "../../components/Select";
import { Skeleton } from "../../components/Skeleton";
import { Stack } from "../../components/Stack";
import { TextInput } from "../../components/TextInput";
import { FieldPair } from "../../forms/FieldPair";
import type { Manifest } from "../../forms/manifest";
import { CronStrip } from "./CronStrip";
import { zoneChoices } from "./zones";

const COMMON: [string, string][] = [
  ["Every hour", "0 * * * *"],
  ["Every day at 9", "0 9 * * *"],
  ["Weekdays at 9", "0 9 * * 1-5"],
  ["Mondays at 9", "0 9 * * 1"],
  ["First of the month", "0 9 1 * *"],
];

/** The schedule, its time zone, and a preview of the next runs. */
export function ScheduleFields({ manifest, problems }: { manifest: Manifest; problems: Record<string, string> }) {
  const schedule = useDeferredValue(manifest.text(["spec", "schedule"]).trim());
  const zone = manifest.text(["spec", "timeZone"]) || "UTC";
  const preview = useQuery({
    queryKey: keys.preview(schedule, zone),
    queryFn: ({ signal }) => call<Upcoming>("/upcoming", { query: { schedule, timeZone: zone, count: 60 }, signal }),
    enabled: schedule !== "",
    retry: false,
    placeholderData: (previous) => previous,
  });
  return (
    <>
      <Stack row gap={2}>
        {COMMON.map(([label, value]) => (
          <Button key={value} small onClick={() => manifest.set(["spec", "schedule"], value)}>
            {label}
          </Button>
        ))}
      </Stack>
      <FieldPair>
        <Field
          label="Schedule"
          required
          problem={problems.schedule ?? (schedule !== "" && preview.error ? preview.error.message : undefined)}
          hint="Minute, hour, day, month, weekday; or @hourly, @daily, @weekly."
        >
          {(parts) => (
            <TextInput
              {...parts}
              className="mono"
              value={manifest.text(["spec", "schedule"])}
              placeholder="0 9 * * 1-5"
              onValue={(value) => manifest.set(["spec", "schedule"], value)}
            />
          )}
        </Field>
        <Field label="Time zone" problem={problems.timeZone}>
          {(parts) => (
            <Select
              {...parts}
              value={zone}
              options={zoneChoices(zone)}
              onValue={(value) => manifest.set(["spec", "timeZone"], value)}
            />
          )}
        </Field>
      </FieldPair>
      {schedule !== "" &&
        !preview.error &&
        (preview.data ? <CronStrip upcoming={preview.data} /> : <Skeleton height={104} />)}
      <FieldPair>
        <Field
          label="Concurrency policy"
          problem={problems.concurrencyPolicy}
          hint="Forbid skips the new run, Replace stops the old one, Allow runs both."
        >
          {(parts) => (
            <Select
              {...parts}
              value={manifest.text(["spec", "concurrencyPolicy"]) || "Forbid"}
              options={["Forbid", "Replace", "Allow"]}
              onValue={(value) => manifest.set(["spec", "concurrencyPolicy"], value)}
            />
          )}
        </Field>
        <Field label="Stop scheduling at N retained Tasks" problem={problems.maxRetainedTasks}>
          {(parts) => (
            <TextInput
              {...parts}
              inputMode="numeric"
              placeholder="10"
              value={manifest.text(["spec", "maxRetainedTasks"])}
              onValue={(value) =>
                manifest.set(["spec", "maxRetainedTasks"], /^\d+$/.test(value) ? Number(value) : value)
              }
            />
          )}
        </Field>
      </FieldPair>
    </>
  );
}
