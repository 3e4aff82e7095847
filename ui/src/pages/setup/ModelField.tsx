import { useId } from "react";
import { Field } from "../../components/Field";
import { Select } from "../../components/Select";
import { TextInput } from "../../components/TextInput";

/** Longer lists are searched by typing. */
const LONGEST_SELECT = 30;

export interface ModelFieldProps {
  /** Models that the provider lists; may be empty. */
  models: string[];
  value: string;
  problem?: string;
  onValue: (model: string) => void;
}

/** The choice of a model: from the provider's list, or typed. */
export function ModelField({ models, value, problem, onValue }: ModelFieldProps) {
  const list = useId();
  const short = models.length > 0 && models.length <= LONGEST_SELECT && (value === "" || models.includes(value));
  return (
    <Field
      label="Model"
      required
      problem={problem}
      hint={models.length > 0 ? `${models.length} offered by the provider.` : "As the provider names it."}
    >
      {(parts) =>
        short ? (
          <Select
            {...parts}
            value={value}
            options={value === "" ? [{ value: "", label: "Select…" }, ...models] : models}
            onValue={onValue}
          />
        ) : (
          <>
            <TextInput {...parts} value={value} list={models.length > 0 ? list : undefined} onValue={onValue} />
            {models.length > 0 && (
              <datalist id={list}>
                {models.map((model) => (
                  <option key={model} value={model} />
                ))}
              </datalist>
            )}
          </>
        )
      }
    </Field>
  );
}
