import { secondsBetween, span } from "../lib/time";
import { useNow } from "./useNow";

/** Time from the start to the end, or to now. */
export function Elapsed({ from, to }: { from: string | undefined; to?: string }) {
  const now = useNow();
  if (!from) return <span className="quiet">–</span>;
  return <span>{span(secondsBetween(from, to ?? now))}</span>;
}
