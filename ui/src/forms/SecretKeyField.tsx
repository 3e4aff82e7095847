import { Link } from "react-router";
import { useSecrets } from "../api/secrets";
import { Field } from "../components/Field";
import { Select } from "../components/Select";
import { TextInput } from "../components/TextInput";
import { FieldPair } from "./FieldPair";
import type { FieldSpec } from "./fieldSpecs";
import type { Manifest, Path } from "./manifest";

export interface SecretKeyFieldProps {
  spec: Extract<FieldSpec, { type: "secret" }>;
  manifest: Manifest;
  at: Path;
  required: boolean;
  problem?: string;
}

/** A value in a Secret, by name and key. Without the right to list Secrets, both are typed. */
export function SecretKeyField({ spec, manifest, at, required, problem }: SecretKeyFieldProps) {
  const namespace = manifest.text(["metadata", "namespace"]);
  const secrets = useSecrets(namespace);
  const name = manifest.text([...at, "name"]);
  const key = manifest.text([...at, "key"]);
  const known = secrets.data;
  const keys = known?.find((secret) => secret.name === name)?.keys ?? [];
  const choose = (next: string) => {
    const of = known?.find((secret) => secret.name === next)?.keys ?? [];
    const only = of.length === 1 && !spec.keyOptional ? of[0] : undefined;
    manifest.set(at, next === "" ? undefined : only ? { name: next, key: only } : { name: next });
  };
  const listed = (names: string[], chosen: string, none: string) => [
    { value: "", label: none },
    ...(chosen !== "" && !names.includes(chosen) ? [{ value: chosen, label: `${chosen} · not found` }] : []),
    ...names,
  ];
  return (
    <FieldPair>
      <Field
        label={spec.label}
        required={required}
        problem={problem}
        hint={spec.hint ?? <Link to={`/secrets/create?namespace=${namespace}`}>New Secret</Link>}
      >
        {(parts) =>
          known ? (
            <Select
              {...parts}
              value={name}
              options={listed(
                known.map((secret) => secret.name),
                name,
                "None",
              )}
              onValue={choose}
            />
          ) : (
            <TextInput {...parts} value={name} onValue={(next) => manifest.set([...at, "name"], next)} />
          )
        }
      </Field>
      <Field label="Key" required={required && !spec.keyOptional} hint={spec.keyOptional ? "All if empty." : undefined}>
        {(parts) =>
          keys.length > 0 ? (
            <Select
              {...parts}
              value={key}
              options={listed(keys, key, spec.keyOptional ? "All keys" : "Select…")}
              onValue={(next) => manifest.set([...at, "key"], next)}
            />
          ) : (
            <TextInput {...parts} value={key} onValue={(next) => manifest.set([...at, "key"], next)} />
          )
        }
      </Field>
    </FieldPair>
  );
}
