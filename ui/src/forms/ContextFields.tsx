import type { ContextItem } from "../api/types";
import { Checkbox } from "../components/Checkbox";
import { Field } from "../components/Field";
import { TextArea } from "../components/TextArea";
import { TextInput } from "../components/TextInput";
import { gitUrlProblem } from "../lib/gitUrl";
import { FieldPair } from "./FieldPair";
import type { Path } from "./manifest";

export interface ContextFieldsProps {
  item: ContextItem;
  problem: (field: string) => string | undefined;
  onChange: (path: Path, value: unknown) => void;
}

/** Form fields of one context, depending on its type. */
export function ContextFields({ item, problem, onChange }: ContextFieldsProps) {
  const line = (
    label: string,
    path: string[],
    value: string | number | undefined,
    options: { required?: boolean; placeholder?: string; hint?: string; number?: boolean; problem?: string } = {},
  ) => (
    <Field
      label={label}
      required={options.required}
      hint={options.hint}
      problem={options.problem ?? problem(path.join("."))}
    >
      {(parts) => (
        <TextInput
          {...parts}
          value={value ?? ""}
          placeholder={options.placeholder}
          inputMode={options.number ? "numeric" : undefined}
          onValue={(next) => onChange(path, options.number && /^\d+$/.test(next) ? Number(next) : next)}
        />
      )}
    </Field>
  );
  const mountPath = (required: boolean, placeholder: string, hint: string) =>
    line("Mount path", ["mountPath"], item.mountPath, { required, placeholder, hint });

  return (
    <>
      {item.type === "Text" && (
        <Field label="Text" required problem={problem("text")}>
          {(parts) => (
            <TextArea {...parts} rows={4} value={item.text ?? ""} onValue={(next) => onChange(["text"], next)} />
          )}
        </Field>
      )}
      {item.type === "Git" && (
        <>
          {line("Repository", ["git", "repository"], item.git?.repository, {
            required: true,
            placeholder: "https://github.com/team/project",
            hint: "https://, ssh:// or git@host:path.",
            problem: gitUrlProblem(item.git?.repository ?? ""),
          })}
          <FieldPair>
            {line("Ref", ["git", "ref"], item.git?.ref, { placeholder: "main", hint: "Branch, tag or commit." })}
            {line("Depth", ["git", "depth"], item.git?.depth, {
              placeholder: "1",
              hint: "0 for the full history.",
              number: true,
            })}
          </FieldPair>
          <FieldPair>
            {line("Path in the repository", ["git", "path"], item.git?.path)}
            {line("Credentials Secret", ["git", "secretRef", "name"], item.git?.secretRef?.name)}
          </FieldPair>
          <Checkbox
            label="Include submodules"
            checked={item.git?.recurseSubmodules ?? false}
            onValue={(next) => onChange(["git", "recurseSubmodules"], next || undefined)}
          />
        </>
      )}
      {item.type === "ConfigMap" && (
        <FieldPair>
          {line("ConfigMap", ["configMap", "name"], item.configMap?.name, { required: true })}
          {line("Key", ["configMap", "key"], item.configMap?.key, { hint: "All keys if empty." })}
        </FieldPair>
      )}
      {item.type === "URL" && (
        <>
          {line("URL", ["url", "source"], item.url?.source, {
            required: true,
            placeholder: "https://example.com/notes.md",
          })}
          <FieldPair>
            {line("Credentials Secret", ["url", "secretRef", "name"], item.url?.secretRef?.name)}
            {line("Timeout in seconds", ["url", "timeout"], item.url?.timeout, { placeholder: "30", number: true })}
          </FieldPair>
        </>
      )}
      {item.type === "Runtime" && (
        <p className="quiet">Describes the environment to the agent: Task, workspace and limits.</p>
      )}
      {item.type !== "Runtime" && (
        <FieldPair>
          {line("Name", ["name"], item.name, { placeholder: "guidelines" })}
          {item.type === "Git" || item.type === "URL"
            ? mountPath(true, item.type === "Git" ? "repo" : "notes.md", "Relative to the workspace.")
            : mountPath(
                false,
                "docs/notes.md",
                "File in the workspace. If empty, the content becomes part of the prompt.",
              )}
        </FieldPair>
      )}
      <Checkbox
        label="Optional: continue if unavailable"
        checked={item.optional ?? false}
        onValue={(next) => onChange(["optional"], next || undefined)}
      />
    </>
  );
}
