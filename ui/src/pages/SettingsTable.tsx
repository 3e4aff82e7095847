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

/** An empty list or object that nobody asked for says nothing. */
function isDefaultNothing({ value, origin }: Setting): boolean {
  return origin.from === "BuiltIn" && typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** A long value scrolls, and what scrolls can be reached by key. */
function Value({ path, text }: { path: string; text: string }) {
  const long = text.length > 400 || text.split("\n").length > 7;
  if (!long) return <code className={styles.value}>{text}</code>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
    // biome-ignore lint/a11y/useSemanticElements: it is a scrolling frame.
    <div role="group" aria-label={`Value of ${path}`} tabIndex={0} className={styles.long}>
      <code className={styles.value}>{text}</code>
    </div>
  );
}

/** Every setting that has a value after the merge, and who set it. */
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
      <EmptyState small title="Nothing resolved yet">
        The settings appear when everything they come from exists.
      </EmptyState>
    );
  }
  const told = set.filter((setting) => !isDefaultNothing(setting));
  const nothing = set.filter(isDefaultNothing).map(({ path }) => path);
  return (
    <div className={styles.settings}>
      <SimpleTable
        label="Settings and their origin"
        head={["Setting", "Value", "Comes from"]}
        rows={told.map((setting) => ({
          key: setting.path,
          cells: [
            <code key="path">{setting.path}</code>,
            <Value key="value" path={setting.path} text={shown(setting.value)} />,
            <Tag key="origin">{setting.originText}</Tag>,
          ],
        }))}
      />
      {nothing.length > 0 && <p className={styles.nothing}>Nobody set {nothing.join(", ")}.</p>}
    </div>
  );
}
