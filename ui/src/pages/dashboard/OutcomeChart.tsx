import { Bar } from "recharts";
import { BucketChart, type BucketChartProps } from "./BucketChart";

/** Outcomes of Tasks over time. */
export default function OutcomeChart({ data, buckets }: Pick<BucketChartProps, "data" | "buckets">) {
  return (
    <BucketChart
      data={data}
      buckets={buckets}
      tip={({ completed, failed, stopped }) => [
        ["Completed", String(completed)],
        ["Failed", String(failed)],
        ["Stopped", String(stopped)],
      ]}
    >
      <Bar dataKey="completed" stackId="ends" fill="var(--chart-1)" isAnimationActive={false} />
      <Bar dataKey="stopped" stackId="ends" fill="var(--chart-3)" isAnimationActive={false} />
      <Bar dataKey="failed" stackId="ends" fill="var(--bad)" isAnimationActive={false} radius={[2, 2, 0, 0]} />
    </BucketChart>
  );
}
