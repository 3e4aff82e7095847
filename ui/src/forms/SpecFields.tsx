import { useState } from "react";
import { useChoices } from "../api/objects";
import type { GenericObject } from "../api/types";
import { Field } from "../components/Field";
import { Select } from "../components/Select";
import { TextArea } from "../components/TextArea";
import { TextInput } from "../components/TextInput";
import { FieldPair } from "./FieldPair";
import { FormSection } from "./FormSection";
import { type FieldSpec, fieldName, isRequired, type RowSpec, type SectionSpec } from "./fieldSpecs";
import { ItemsField } from "./ItemsField";
import { type Manifest, type Path, valueAt } from "./manifest";
import { SecretKeyField } from "./SecretKeyField";

export interface SpecFieldsProps {
  manifest: Manifest;
  problems: Record<string, string>;
  sections: SectionSpec[];
}

/** The sections of a form that is described as data. */
export function SpecFields({ manifest, problems, sections }: SpecFieldsProps) {
  return sections.map((section) => (
    <FormSection key={section.title} title={section.title}>
      <SpecRows rows={section.rows} manifest={manifest} base={["spec"]} problems={problems} />
    </FormSection>
  ));
}

export interface SpecRowsProps {
  rows: RowSpec[];
  manifest: Manifest;
  /** Where the paths of the fields begin. */
  base: Path;
  problems: Record<string, string>;
}

export function SpecRows({ rows, manifest, base, problems }: SpecRowsProps) {
  const text = (path: Path) => manifest.text([...base, ...path]);
  return rows.map((row) => {
    const fields = [row].flat().filter((field) => field.when === undefined || field.when(text));
    const shown = fields.map((field) => (
      <SpecField key={fieldName(field.path)} field={field} manifest={manifest} base={base} problems={problems} />
    ));
    const [first] = [row].flat();
    return shown.length > 1 ? <FieldPair key={first && fieldName(first.path)}>{shown}</FieldPair> : shown;
  });
}

interface SpecFieldProps {
  field: FieldSpec;
  manifest: Manifest;
  base: Path;
  problems: Record<string, string>;
}

function SpecField({ field, manifest, base, problems }: SpecFieldProps) {
  const at = [...base, ...field.path];
  // Errors of the server are relative to the spec.
  const problem = problems[fieldName(at.slice(1))];
  const { label, hint } = field;
  const required = isRequired(field, (path) => manifest.text([...base, ...path]));
  switch (field.type) {
    case "items":
      return <ItemsField spec={field} manifest={manifest} at={at} problems={problems} />;
    case "secret":
      return <SecretKeyField spec={field} manifest={manifest} at={at} required={required} problem={problem} />;
    case "object":
      return <ObjectField spec={field} manifest={manifest} at={at} required={required} problem={problem} />;
    case "lines":
      return <LinesField spec={field} manifest={manifest} at={at} required={required} problem={problem} />;
    case "area":
      return (
        <Field label={label} hint={hint} required={required} problem={problem}>
          {(parts) => (
            <TextArea
              {...parts}
              rows={field.rows ?? 4}
              placeholder={field.placeholder}
              value={manifest.text(at)}
              onValue={(value) => manifest.set(at, value)}
            />
          )}
        </Field>
      );
    case "select":
      return (
        <Field label={label} hint={hint} required={required} problem={problem}>
          {(parts) => (
            <Select
              {...parts}
              value={manifest.text(at)}
              options={field.none === undefined ? field.options : [{ value: "", label: field.none }, ...field.options]}
              onValue={(value) => manifest.set(at, value)}
            />
          )}
        </Field>
      );
    case "text":
      return (
        <Field label={label} hint={hint} required={required} problem={problem}>
          {(parts) => (
            <TextInput
              {...parts}
              value={manifest.text(at)}
              placeholder={field.placeholder}
              inputMode={field.number ? "decimal" : undefined}
              onValue={(value) => manifest.set(at, field.number ? numberOf(value) : value)}
            />
          )}
        </Field>
      );
  }
}

/** A number, unless the text is not (yet) one: `1.` stays a text, so that typing can continue. */
function numberOf(text: string): string | number {
  return /^\d+(\.\d*[1-9])?$/.test(text) ? Number(text) : text;
}

interface OneFieldProps<T extends FieldSpec["type"]> {
  spec: Extract<FieldSpec, { type: T }>;
  manifest: Manifest;
  at: Path;
  required: boolean;
  problem?: string;
}

function ObjectField({ spec, manifest, at, required, problem }: OneFieldProps<"object">) {
  const namespace = manifest.text(["metadata", "namespace"]);
  const choices = useChoices<GenericObject>(spec.kind, namespace, namespace !== "");
  const names = (choices.data ?? []).map((object) => object.name);
  const chosen = manifest.text(spec.as === "text" ? at : [...at, "name"]);
  const none = spec.none ?? (names.length === 0 ? `No ${spec.kind.one} in namespace ${namespace}` : "Select…");
  return (
    <Field label={spec.label} hint={spec.hint} required={required} problem={problem}>
      {(parts) => (
        <Select
          {...parts}
          value={chosen}
          options={[
            { value: "", label: none },
            ...(chosen !== "" && !names.includes(chosen)
              ? [{ value: chosen, label: `${chosen} · not found` }, ...names]
              : names),
          ]}
          onValue={(name) => manifest.set(at, name === "" || spec.as === "text" ? name : { name })}
        />
      )}
    </Field>
  );
}

function LinesField({ spec, manifest, at, required, problem }: OneFieldProps<"lines">) {
  const value = valueAt(manifest.object, at);
  const lines = Array.isArray(value) ? value.map(String).join("\n") : "";
  // An empty line at the end is not part of the list, but must not disappear while typing.
  const [typed, setTyped] = useState(lines);
  const shown = typed.split("\n").filter(Boolean).join("\n") === lines ? typed : lines;
  return (
    <Field label={spec.label} hint={spec.hint ?? "One per line."} required={required} problem={problem}>
      {(parts) => (
        <TextArea
          {...parts}
          rows={2}
          placeholder={spec.placeholder}
          value={shown}
          onValue={(next) => {
            setTyped(next);
            manifest.set(at, next.split("\n").filter(Boolean));
          }}
        />
      )}
    </Field>
  );
}
