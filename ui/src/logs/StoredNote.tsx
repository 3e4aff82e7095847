import { Button } from "../components/Button";
import { plural, sentence } from "../lib/format";
import styles from "./LogView.module.css";
import type { StoredMatches } from "./useStoredMatches";

/** What the server found in other runs, and what it could not search. */
export function StoredNote({
  stored: { found, error },
  run,
  onRun,
}: {
  stored: StoredMatches;
  run: number;
  onRun?: ((run: number) => void) | undefined;
}) {
  if (error) {
    return (
      <div className={styles.note} role="status">
        <span>Other runs could not be searched: {error.message}</span>
      </div>
    );
  }
  const others = found?.runs.filter(({ epoch, matchCount }) => epoch !== run && matchCount > 0) ?? [];
  const missing = found?.runs.find(({ epoch }) => epoch === run)?.missing;
  if (!found || (others.length === 0 && !found.incomplete)) return null;
  return (
    <div className={styles.note} role="status">
      <span>
        {others.length > 0 && "Also found in other runs"}
        {found.incomplete && `${others.length > 0 ? ". " : ""}${sentence(found.incomplete)}`}
        {missing && `. ${sentence(missing)}`}
      </span>
      {others.map(({ epoch, matchCount }) => (
        <Button key={epoch} small onClick={() => onRun?.(epoch)}>
          Run {epoch}: {plural(matchCount, "line")}
        </Button>
      ))}
    </div>
  );
}
