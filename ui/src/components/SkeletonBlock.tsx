import { Skeleton } from "./Skeleton";
import { Stack } from "./Stack";

const WIDTHS = ["72%", "88%", "54%", "80%", "64%"];

/** A few lines of placeholder, announced once to screen readers. */
export function SkeletonBlock({ lines = 4, label = "Loading" }: { lines?: number; label?: string }) {
  return (
    <div role="status" aria-label={label}>
      <Stack gap={3}>
        {Array.from({ length: lines }, (_, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: placeholders have no identity.
          <Skeleton key={i} width={WIDTHS[i % WIDTHS.length]} />
        ))}
      </Stack>
    </div>
  );
}
