import type { Cache } from "../../api/types";
import { Card } from "../../components/Card";
import { SimpleTable } from "../../components/SimpleTable";
import { Tag } from "../../components/Tag";
import { bytes } from "../../lib/format";
import { span } from "../../lib/time";

const HITS: Record<NonNullable<Cache["hit"]>, string> = {
  Exact: "Hit",
  Prefix: "Hit of a restore key",
  Miss: "Miss",
};

/** The caches of the run: what was found before it, and whether they were saved after it. */
export function CachesCard({ caches }: { caches: Cache[] }) {
  return (
    <Card title="Caches" tools={<Tag>{caches.length}</Tag>} flush>
      <SimpleTable
        label="Caches"
        head={["Cache", "Restored", "Saved"]}
        rows={caches.map((cache) => ({
          key: cache.name,
          cells: [cache.name, restored(cache), cache.saved ? "Yes" : "No"],
        }))}
      />
    </Card>
  );
}

/** `Hit: 204 MiB in 3s`. */
function restored({ hit, bytes: size, seconds }: Cache): string {
  if (!hit) return "Not to be restored";
  const amount = size === undefined ? "" : `: ${bytes(size)}${seconds === undefined ? "" : ` in ${span(seconds)}`}`;
  return `${HITS[hit]}${amount}`;
}
