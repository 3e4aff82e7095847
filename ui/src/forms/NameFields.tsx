import { useNamespaces } from "../app/NamespaceSelect";
import { Field } from "../components/Field";
import { Select } from "../components/Select";
import { TextInput } from "../components/TextInput";
import { FieldPair } from "./FieldPair";
import type { Manifest } from "./manifest";

const EXAMPLES: Record<string, string> = {
  Task: "fix-login-bug",
  CronTask: "nightly-report",
  Agent: "web-developer",
  AgentTemplate: "node-project",
};

export interface NameFieldsProps {
  manifest: Manifest;
  problems: Record<string, string>;
  /** Whether the server generates a name if it is empty. */
  nameOptional?: boolean;
}

export function NameFields({ manifest, problems, nameOptional }: NameFieldsProps) {
  const known = useNamespaces();
  const namespace = manifest.text(["metadata", "namespace"]);
  const names = namespace && !known.includes(namespace) ? [namespace, ...known] : known;
  return (
    <FieldPair>
      <Field label="Namespace" required problem={problems.namespace}>
        {(parts) => (
          <Select
            {...parts}
            value={namespace}
            onValue={(value) => manifest.set(["metadata", "namespace"], value)}
            options={namespace === "" ? [{ value: "", label: "Select…" }, ...names] : names}
          />
        )}
      </Field>
      <Field
        label="Name"
        required={!nameOptional}
        problem={problems.name}
        hint={nameOptional ? "Generated if empty." : "Lowercase letters, digits and hyphens."}
      >
        {(parts) => (
          <TextInput
            {...parts}
            value={manifest.text(["metadata", "name"])}
            placeholder={EXAMPLES[manifest.text(["kind"])]}
            onValue={(value) => manifest.set(["metadata", "name"], value)}
          />
        )}
      </Field>
    </FieldPair>
  );
}
