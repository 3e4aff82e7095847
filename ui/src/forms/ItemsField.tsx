import { Plus, Trash2 } from "lucide-react";
import { Button } from "../components/Button";
import { IconButton } from "../components/IconButton";
import { Problem } from "../components/Problem";
import styles from "./ContextsField.module.css";
import { type FieldSpec, fieldName } from "./fieldSpecs";
import { type Manifest, type Path, valueAt } from "./manifest";
import { SpecRows } from "./SpecFields";

export interface ItemsFieldProps {
  spec: Extract<FieldSpec, { type: "items" }>;
  manifest: Manifest;
  at: Path;
  problems: Record<string, string>;
}

/** A list of objects in a form, each with its own fields. */
export function ItemsField({ spec, manifest, at, problems }: ItemsFieldProps) {
  const value = valueAt(manifest.object, at);
  const items = Array.isArray(value) ? value : [];
  const field = fieldName(at.slice(1));
  return (
    // biome-ignore lint/a11y/useSemanticElements: fieldsets are the sections around it.
    <div className={styles.list} role="group" aria-label={spec.label}>
      {problems[field] && <Problem error={problems[field]} />}
      {items.length === 0 && <p className="quiet">{spec.hint ?? `No ${spec.one} added.`}</p>}
      {items.map((item, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an item is identified by its index.
        // biome-ignore lint/a11y/useSemanticElements: fieldsets are the sections around it.
        <div key={i} className={styles.item} role="group" aria-label={`${spec.one} ${i + 1}`}>
          <div className={styles.head}>
            <h2>{String(valueAt(item, spec.title) ?? "") || `New ${spec.one}`}</h2>
            <IconButton
              small
              label={`Remove ${spec.one} ${i + 1}`}
              icon={<Trash2 size={14} />}
              onClick={() => manifest.set([...at, i], undefined)}
            />
          </div>
          {problems[`${field}.${i}`] && <Problem error={problems[`${field}.${i}`]} />}
          <SpecRows rows={spec.fields} manifest={manifest} base={[...at, i]} problems={problems} />
        </div>
      ))}
      <div className={styles.add}>
        <Button small icon={<Plus size={13} />} onClick={() => manifest.set([...at, items.length], spec.initial)}>
          Add a {spec.one}
        </Button>
      </div>
    </div>
  );
}
