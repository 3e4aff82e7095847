import { Plus, Trash2 } from "lucide-react";
import type { Plugin } from "../api/types";
import { Button } from "../components/Button";
import { IconButton } from "../components/IconButton";
import { Problem } from "../components/Problem";
import { Stack } from "../components/Stack";
import { TextInput } from "../components/TextInput";
import styles from "./ContextsField.module.css";
import { type Manifest, type Path, valueAt } from "./manifest";

const AT: Path = ["spec", "plugins"];

/** OpenCode plugins, by package name. */
export function PluginsField({ manifest, problem }: { manifest: Manifest; problem?: string }) {
  const value = valueAt(manifest.object, AT);
  const plugins = Array.isArray(value) ? (value as Plugin[]) : [];
  return (
    <Stack gap={2}>
      {problem && <Problem error={problem} />}
      {plugins.map((plugin, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the name may still be empty.
        <div key={i} className={styles.head}>
          <TextInput
            aria-label={`Package of plugin ${i + 1}`}
            placeholder="opencode-plugin@1.2.3"
            value={plugin.name ?? ""}
            onValue={(next) => manifest.set([...AT, i, "name"], next)}
          />
          <IconButton
            small
            label={`Remove plugin ${i + 1}`}
            icon={<Trash2 size={14} />}
            onClick={() => manifest.set([...AT, i], undefined)}
          />
        </div>
      ))}
      <div className={styles.add}>
        <Button
          small
          icon={<Plus size={13} />}
          onClick={() => manifest.set([...AT, plugins.length], { name: `plugin-${plugins.length + 1}` })}
        >
          Add a plugin
        </Button>
      </div>
    </Stack>
  );
}
