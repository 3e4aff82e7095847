import type { Asset } from "../../api/types";
import { Badge } from "../../components/Badge";
import { readyStatus } from "../../lib/phase";
import styles from "./AssetPicker.module.css";

export interface AssetPickerProps {
  label: string;
  assets: Asset[];
  /** Whether only one asset can be selected. */
  single?: boolean;
  chosen: string[];
  onChosen: (names: string[]) => void;
}

/** A selection of assets of a Registry. */
export function AssetPicker({ label, assets, single, chosen, onChosen }: AssetPickerProps) {
  if (assets.length === 0) return <p className="quiet">None in this Registry.</p>;
  return (
    // biome-ignore lint/a11y/useAriaPropsSupportedByRole: both roles take a label.
    <div className={styles.list} role={single ? "radiogroup" : "group"} aria-label={label}>
      {assets.map((asset) => (
        <label key={asset.name} className={styles.asset}>
          <input
            type={single ? "radio" : "checkbox"}
            name={label}
            checked={chosen.includes(asset.name)}
            onChange={(event) => {
              if (single) onChosen([asset.name]);
              else if (event.target.checked) onChosen([...chosen, asset.name]);
              else onChosen(chosen.filter((name) => name !== asset.name));
            }}
          />
          <span>
            <strong>{asset.name}</strong>
            {asset.metadata?.description && <span className="quiet"> {asset.metadata.description}</span>}
            {asset.metadata?.requiredCredentials?.length ? (
              <span className="quiet">
                {" "}
                · needs {asset.metadata.requiredCredentials.map((credential) => credential.env).join(", ")}
              </span>
            ) : null}
          </span>
          <Badge status={readyStatus(asset.phase === undefined ? undefined : asset.phase === "Ready")} />
        </label>
      ))}
    </div>
  );
}
