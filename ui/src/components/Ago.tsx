import { ago, full } from "../lib/time";
import { useNow } from "./useNow";

/** Relative time, with the exact time on hover. */
export function Ago({ at }: { at: string | undefined }) {
  const now = useNow();
  if (!at) return <span className="quiet">–</span>;
  return (
    <time dateTime={at} title={full(at)}>
      {ago(at, now)}
    </time>
  );
}
