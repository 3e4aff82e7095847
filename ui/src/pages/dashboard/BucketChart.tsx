import type { ReactNode } from "react";
import { CartesianGrid, ComposedChart, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import type { UsageBucket } from "../../api/types";
import { ChartTooltip } from "./ChartTooltip";

const AXIS = { stroke: "var(--border)", tick: { fill: "var(--text-3)", fontSize: 11 }, tickLine: false };
const MARGIN = { top: 8, right: 8, bottom: 0, left: 0 };

export interface BucketChartProps {
  data: UsageBucket[];
  buckets: "hour" | "day";
  /** Format of an axis value; by default whole numbers. */
  tick?: (value: number) => string;
  /** Tooltip lines of a bucket. */
  tip: (bucket: UsageBucket) => [string, string][];
  /** Areas and bars of recharts. */
  children: ReactNode;
}

/** A chart over hours or days. Colours are CSS variables and follow the theme. */
export function BucketChart({ data, buckets, tick, tip, children }: BucketChartProps) {
  const points = data.map((bucket) => ({
    ...bucket,
    cost: Number(bucket.cost),
    label: bucketLabel(bucket.start, buckets),
    bucket,
  }));
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart data={points} margin={MARGIN} accessibilityLayer>
        <CartesianGrid vertical={false} stroke="var(--border)" />
        <XAxis dataKey="label" {...AXIS} minTickGap={28} />
        <YAxis {...AXIS} axisLine={false} width={56} tickFormatter={tick} allowDecimals={tick !== undefined} />
        <Tooltip
          isAnimationActive={false}
          cursor={{ stroke: "var(--border-strong)" }}
          content={({ active, payload }) => {
            const point = payload?.[0]?.payload as (typeof points)[number] | undefined;
            return active && point ? <ChartTooltip title={point.label} lines={tip(point.bucket)} /> : null;
          }}
        />
        {children}
      </ComposedChart>
    </ResponsiveContainer>
  );
}

/** Label of a bucket. */
function bucketLabel(start: string, buckets: "hour" | "day"): string {
  const date = new Date(start);
  return buckets === "hour"
    ? date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
}
