import { secondsBetween, span } from "../lib/time";
import { useNow } from "./useNow";

/** Time from a start to an end, or to now while it goes on. */
export function Elapsed({ from, to }: { from: string | undefined; to?: string }) {
  const now = useNow();
  if (!from) return <span className="quiet">–</span>;
  return <span>{span(secondsBetween(from, to ?? now))}</span>;
}
