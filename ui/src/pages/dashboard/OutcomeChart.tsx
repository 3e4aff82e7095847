import { Bar, BarChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import type { UsageBucket } from "../../api/types";
import { ChartTooltip } from "./ChartTooltip";
import { AXIS, bucketLabel, MARGIN } from "./chartLook";

/** How Tasks ended, over time. */
export default function OutcomeChart({ data, buckets }: { data: UsageBucket[]; buckets: "hour" | "day" }) {
  const points = data.map((bucket) => ({ ...bucket, label: bucketLabel(bucket.start, buckets) }));
  return (
    <ResponsiveContainer width="100%" height="100%">
      <BarChart data={points} margin={MARGIN} accessibilityLayer>
        <CartesianGrid vertical={false} stroke="var(--border)" />
        <XAxis dataKey="label" {...AXIS} minTickGap={28} />
        <YAxis {...AXIS} axisLine={false} width={56} allowDecimals={false} />
        <Tooltip
          isAnimationActive={false}
          cursor={{ fill: "var(--surface-2)" }}
          content={({ active, payload }) => {
            const bucket = payload?.[0]?.payload as (typeof points)[number] | undefined;
            return active && bucket ? (
              <ChartTooltip
                title={bucket.label}
                lines={[
                  ["Completed", String(bucket.completed)],
                  ["Failed", String(bucket.failed)],
                  ["Stopped", String(bucket.stopped)],
                ]}
              />
            ) : null;
          }}
        />
        <Bar dataKey="completed" stackId="ends" fill="var(--chart-1)" isAnimationActive={false} />
        <Bar dataKey="stopped" stackId="ends" fill="var(--chart-3)" isAnimationActive={false} />
        <Bar dataKey="failed" stackId="ends" fill="var(--bad)" isAnimationActive={false} radius={[2, 2, 0, 0]} />
      </BarChart>
    </ResponsiveContainer>
  );
}
