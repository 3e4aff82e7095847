import { Plus, Trash2 } from "lucide-react";
import type { ContextItem, ContextType } from "../api/types";
import { Button } from "../components/Button";
import { IconButton } from "../components/IconButton";
import { Problem } from "../components/Problem";
import { ContextFields } from "./ContextFields";
import styles from "./ContextsField.module.css";
import { type Manifest, type Path, valueAt } from "./manifest";

const TYPES: { type: ContextType; label: string; initial: ContextItem }[] = [
  { type: "Text", label: "Text", initial: { type: "Text" } },
  { type: "Git", label: "Git repository", initial: { type: "Git" } },
  { type: "ConfigMap", label: "ConfigMap", initial: { type: "ConfigMap" } },
  { type: "URL", label: "URL", initial: { type: "URL" } },
  { type: "Runtime", label: "Runtime information", initial: { type: "Runtime" } },
];

export interface ContextsFieldProps {
  manifest: Manifest;
  at: Path;
  problems: Record<string, string>;
}

/** The list of contexts in a form. */
export function ContextsField({ manifest, at, problems }: ContextsFieldProps) {
  const value = valueAt(manifest.object, at);
  const items = Array.isArray(value) ? (value as ContextItem[]) : [];
  return (
    <div className={styles.list}>
      {items.length === 0 && <p className="quiet">No context added.</p>}
      {items.map((item, i) => {
        const title = TYPES.find((entry) => entry.type === item.type)?.label ?? item.type;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: a context is identified by its index.
          // biome-ignore lint/a11y/useSemanticElements: fieldsets are the sections around it.
          <div key={i} className={styles.item} role="group" aria-label={`Context ${i + 1}: ${title}`}>
            <div className={styles.head}>
              <h3>{title}</h3>
              <IconButton
                small
                label={`Remove context ${i + 1}`}
                icon={<Trash2 size={14} />}
                onClick={() => manifest.set([...at, i], undefined)}
              />
            </div>
            {problems[`contexts.${i}`] && <Problem error={problems[`contexts.${i}`]} />}
            <ContextFields
              item={item}
              problem={(field) => problems[`contexts.${i}.${field}`]}
              onChange={(path, next) => manifest.set([...at, i, ...path], next)}
            />
          </div>
        );
      })}
      {/* biome-ignore lint/a11y/useSemanticElements: a row of buttons. */}
      <div className={styles.add} role="group" aria-label="Add a context">
        {TYPES.map(({ type, label, initial }) => (
          <Button
            key={type}
            small
            icon={<Plus size={13} />}
            onClick={() => manifest.set([...at, items.length], initial)}
          >
            {label}
          </Button>
        ))}
      </div>
    </div>
  );
}
