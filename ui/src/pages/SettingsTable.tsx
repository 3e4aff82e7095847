import { stringify } from "yaml";
import type { Setting } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { Problem } from "../components/Problem";
import { SimpleTable } from "../components/SimpleTable";
import { Tag } from "../components/Tag";
import styles from "./SettingsTable.module.css";

function shown(value: unknown): string {
  if (typeof value === "object") return stringify(value).trim();
  return String(value);
}

/** An empty list or object from the built-in defaults. */
function isUnset({ value, origin }: Setting): boolean {
  return origin.from === "BuiltIn" && typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** Long values scroll; the scrolling area is reachable by keyboard. */
function Value({ path, text }: { path: string; text: string }) {
  const long = text.length > 400 || text.split("\n").length > 7;
  if (!long) return <code className={styles.value}>{text}</code>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: it is a scrolling area.
    <div role="group" aria-label={`Value of ${path}`} tabIndex={0} className={styles.long}>
      <code className={styles.value}>{text}</code>
    </div>
  );
}

/** The effective settings and the object that set each of them. */
export function SettingsTable({ settings, error }: { settings: Setting[] | undefined; error: string | undefined }) {
  if (error) {
    return (
      <div className={styles.empty}>
        <Problem error={error} />
      </div>
    );
  }
  const set = settings?.filter(({ value }) => value !== undefined && value !== null) ?? [];
  if (set.length === 0) {
    return (
      <EmptyState small title="Not resolved yet">
        Settings appear when all referenced objects exist.
      </EmptyState>
    );
  }
  const listed = set.filter((setting) => !isUnset(setting));
  const unset = set.filter(isUnset).map(({ path }) => path);
  return (
    <div className={styles.settings}>
      <SimpleTable
        label="Settings and their sources"
        head={["Setting", "Value", "Source"]}
        rows={listed.map((setting) => ({
          key: setting.path,
          cells: [
            <code key="path">{setting.path}</code>,
            <Value key="value" path={setting.path} text={shown(setting.value)} />,
            <Tag key="origin">{setting.originText}</Tag>,
          ],
        }))}
      />
      {unset.length > 0 && <p className={styles.unset}>Not set: {unset.join(", ")}.</p>}
    </div>
  );
}
