import { stringify } from "yaml";
import type { Setting } from "../api/types";
import { EmptyState } from "../components/EmptyState";
import { Problem } from "../components/Problem";
import { SimpleTable } from "../components/SimpleTable";
import { Tag } from "../components/Tag";
import styles from "./SettingsTable.module.css";

function shown(value: unknown): string {
  if (value === undefined || value === null) return "–";
  if (typeof value === "object") return stringify(value).trim();
  return String(value);
}

/** Every setting after the merge, and who set it. */
export function SettingsTable({ settings, error }: { settings: Setting[] | undefined; error: string | undefined }) {
  if (error) {
    return (
      <div className={styles.empty}>
        <Problem error={error} />
      </div>
    );
  }
  if (!settings || settings.length === 0) {
    return (
      <EmptyState small title="Nothing resolved yet">
        The settings appear when everything they come from exists.
      </EmptyState>
    );
  }
  return (
    <SimpleTable
      label="Settings and their origin"
      head={["Setting", "Value", "Comes from"]}
      rows={settings.map((setting) => ({
        key: setting.path,
        cells: [
          <code key="path">{setting.path}</code>,
          <code key="value" className={styles.value}>
            {shown(setting.value)}
          </code>,
          <Tag key="origin">{setting.originText ?? setting.origin?.from ?? "unknown"}</Tag>,
        ],
      }))}
    />
  );
}
