import { Area } from "recharts";
import { money, moneyMark, short } from "../../lib/format";
import { BucketChart, type BucketChartProps } from "./BucketChart";

export interface UsageChartProps extends Pick<BucketChartProps, "data" | "buckets"> {
  show: "cost" | "tokens";
}

/** Cost or tokens over time. */
export default function UsageChart({ data, buckets, show }: UsageChartProps) {
  return (
    <BucketChart
      data={data}
      buckets={buckets}
      tick={show === "cost" ? moneyMark : short}
      tip={({ cost, tokens }) => [
        ["Cost", money(cost)],
        ["Tokens", short(tokens)],
      ]}
    >
      <Area
        dataKey={show}
        type="monotone"
        stroke="var(--chart-1)"
        strokeWidth={2}
        fill="var(--chart-1)"
        fillOpacity={0.14}
        isAnimationActive={false}
      />
    </BucketChart>
  );
}
