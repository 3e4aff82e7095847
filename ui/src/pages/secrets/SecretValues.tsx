import { Plus, Trash2 } from "lucide-react";
import { Button } from "../../components/Button";
import { Checkbox } from "../../components/Checkbox";
import { Field } from "../../components/Field";
import { IconButton } from "../../components/IconButton";
import { TextArea } from "../../components/TextArea";
import { TextInput } from "../../components/TextInput";
import styles from "../../forms/ContextsField.module.css";
import { FieldPair } from "../../forms/FieldPair";

export interface NewValue {
  /** Identifies the row while the key is typed. */
  id: number;
  key: string;
  value: string;
  /** Several lines, such as a certificate; shown while typing. */
  lines: boolean;
}

let lastId = 0;

export function newValue(key = ""): NewValue {
  lastId += 1;
  return { id: lastId, key, value: "", lines: false };
}

export interface SecretValuesProps {
  values: NewValue[];
  onValues: (values: NewValue[]) => void;
  problems: Record<string, string>;
}

/** New values of a Secret. */
export function SecretValues({ values, onValues, problems }: SecretValuesProps) {
  const change = (id: number, part: Partial<NewValue>) =>
    onValues(values.map((value) => (value.id === id ? { ...value, ...part } : value)));
  return (
    <div className={styles.list}>
      {values.map((entry, i) => (
        // biome-ignore lint/a11y/useSemanticElements: fieldsets are the sections around it.
        <div key={entry.id} className={styles.item} role="group" aria-label={`Value ${i + 1}`}>
          <div className={styles.head}>
            <h2>{entry.key || "New value"}</h2>
            <IconButton
              small
              label={`Remove value ${i + 1}`}
              icon={<Trash2 size={14} />}
              onClick={() => onValues(values.filter((value) => value.id !== entry.id))}
            />
          </div>
          <FieldPair>
            <Field label="Key" required problem={problems[`key.${entry.id}`]}>
              {(parts) => (
                <TextInput
                  {...parts}
                  value={entry.key}
                  placeholder="api-key"
                  onValue={(key) => change(entry.id, { key })}
                />
              )}
            </Field>
            <Field label="Value" required problem={problems[`value.${entry.id}`]} hint="Never shown again.">
              {(parts) =>
                entry.lines ? (
                  <TextArea {...parts} rows={4} value={entry.value} onValue={(value) => change(entry.id, { value })} />
                ) : (
                  <TextInput
                    {...parts}
                    type="password"
                    data-1p-ignore
                    value={entry.value}
                    onValue={(value) => change(entry.id, { value })}
                  />
                )
              }
            </Field>
          </FieldPair>
          <Checkbox
            label="Several lines, such as a certificate or a private key"
            checked={entry.lines}
            onValue={(lines) => change(entry.id, { lines })}
          />
        </div>
      ))}
      <div className={styles.add}>
        <Button small icon={<Plus size={13} />} onClick={() => onValues([...values, newValue()])}>
          Add a value
        </Button>
      </div>
    </div>
  );
}

/** Errors of values, by field. */
export function checkValues(values: NewValue[]): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const { id, key, value } of values) {
    if (key === "") problems[`key.${id}`] = "Key is required.";
    else if (!/^[-._a-zA-Z0-9]+$/.test(key)) problems[`key.${id}`] = "Letters, digits, '-', '_' and '.'.";
    else if (values.some((other) => other.id < id && other.key === key))
      problems[`key.${id}`] = "This key is repeated.";
    if (value === "") problems[`value.${id}`] = "Value is required.";
  }
  return problems;
}

/** The values by key, as the server takes them. */
export function dataOf(values: NewValue[]): Record<string, string> {
  return Object.fromEntries(values.map(({ key, value }) => [key, value]));
}
