import { Stack } from "../components/Stack";
import { Tag } from "../components/Tag";

export function LabelList({ labels }: { labels: Record<string, string> | undefined }) {
  const entries = Object.entries(labels ?? {});
  if (entries.length === 0) return <span className="quiet">none</span>;
  return (
    <Stack row gap={1}>
      {entries.map(([key, value]) => (
        <Tag key={key}>{value === "" ? key : `${key}=${value}`}</Tag>
      ))}
    </Stack>
  );
}
