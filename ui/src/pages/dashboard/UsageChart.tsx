import { Area, AreaChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import type { UsageBucket } from "../../api/types";
import { money, short } from "../../lib/format";
import { ChartTooltip } from "./ChartTooltip";
import { AXIS, bucketLabel, MARGIN } from "./chartLook";

export interface UsageChartProps {
  data: UsageBucket[];
  buckets: "hour" | "day";
  show: "cost" | "tokens";
}

/** Money or tokens over time. */
export default function UsageChart({ data, buckets, show }: UsageChartProps) {
  const points = data.map((bucket) => ({
    ...bucket,
    cost: Number(bucket.cost),
    label: bucketLabel(bucket.start, buckets),
  }));
  const format = (value: number) => (show === "cost" ? money(value) : short(value));
  return (
    <ResponsiveContainer width="100%" height="100%">
      <AreaChart data={points} margin={MARGIN} accessibilityLayer>
        <CartesianGrid vertical={false} stroke="var(--border)" />
        <XAxis dataKey="label" {...AXIS} minTickGap={28} />
        <YAxis {...AXIS} axisLine={false} width={56} tickFormatter={format} />
        <Tooltip
          isAnimationActive={false}
          cursor={{ stroke: "var(--border-strong)" }}
          content={({ active, payload }) => {
            const bucket = payload?.[0]?.payload as (typeof points)[number] | undefined;
            return active && bucket ? (
              <ChartTooltip
                title={bucket.label}
                lines={[
                  ["Cost", money(bucket.cost)],
                  ["Tokens", short(bucket.tokens)],
                ]}
              />
            ) : null;
          }}
        />
        <Area
          dataKey={show}
          type="monotone"
          stroke="var(--chart-1)"
          strokeWidth={2}
          fill="var(--chart-1)"
          fillOpacity={0.14}
          isAnimationActive={false}
        />
      </AreaChart>
    </ResponsiveContainer>
  );
}
