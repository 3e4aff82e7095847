import { AGENT_TEMPLATE, MODEL } from "../api/kinds";
import { useChoices } from "../api/objects";
import type { AgentTemplate, GenericObject } from "../api/types";
import { Field } from "../components/Field";
import { Select } from "../components/Select";
import { TextInput } from "../components/TextInput";
import { FieldPair } from "./FieldPair";
import { FormSection } from "./FormSection";
import type { Manifest, Path } from "./manifest";
import { PluginsField } from "./PluginsField";
import { SkillsField } from "./SkillsField";

export interface AgentFieldsProps {
  manifest: Manifest;
  problems: Record<string, string>;
  /** An Agent has more than a template: who it is, what it builds on, how it runs. */
  agent?: boolean;
}

/** The settings of an Agent or a template. */
export function AgentFields({ manifest, problems, agent }: AgentFieldsProps) {
  const namespace = manifest.text(["metadata", "namespace"]);
  const templates = useChoices<AgentTemplate>(AGENT_TEMPLATE, namespace, agent === true);
  const models = useChoices<GenericObject>(MODEL, namespace);
  const line = (
    label: string,
    path: Path,
    options: { field?: string; placeholder?: string; hint?: string; number?: boolean } = {},
  ) => (
    <Field label={label} hint={options.hint} problem={problems[options.field ?? path.join(".")]}>
      {(parts) => (
        <TextInput
          {...parts}
          value={manifest.text(["spec", ...path])}
          placeholder={options.placeholder}
          inputMode={options.number ? "numeric" : undefined}
          onValue={(value) =>
            manifest.set(["spec", ...path], options.number && /^\d+$/.test(value) ? Number(value) : value)
          }
        />
      )}
    </Field>
  );
  const choice = (label: string, field: string, names: string[], none: string, hint: string) => {
    const chosen = manifest.text(["spec", field, "name"]);
    return (
      <Field label={label} hint={hint} problem={problems[field]}>
        {(parts) => (
          <Select
            {...parts}
            value={chosen}
            options={[{ value: "", label: none }, ...(chosen && !names.includes(chosen) ? [chosen, ...names] : names)]}
            onValue={(name) => manifest.set(["spec", field], name === "" ? undefined : { name })}
          />
        )}
      </Field>
    );
  };

  return (
    <>
      <FormSection title={agent ? "Who it is" : "Model"}>
        {agent &&
          line("Profile", ["profile"], {
            placeholder: "Fixes bugs in the web shop",
            hint: "What it is good at, for people.",
          })}
        <FieldPair>
          {agent &&
            choice(
              "Template",
              "templateRef",
              (templates.data ?? []).map((template) => template.name),
              "None",
              "What is left empty here comes from it.",
            )}
          {choice(
            "Model",
            "modelRef",
            (models.data ?? []).map((model) => model.name),
            agent ? "From the template or the configuration" : "From the configuration",
            "Which model does the thinking.",
          )}
        </FieldPair>
      </FormSection>
      <FormSection title="How it runs">
        <FieldPair>
          {line("Executor image", ["executorImage"], { hint: "The tools that the agent works with." })}
          {line("Agent image", ["agentImage"], { hint: "Where OpenCode comes from." })}
        </FieldPair>
        <FieldPair>
          {line("Workspace directory", ["workspaceDir"], { placeholder: "/workspace" })}
          {line("Service account", ["serviceAccountName"], { hint: "The rights of its Pods in the cluster." })}
        </FieldPair>
        <FieldPair>
          {line("Tasks at once", ["maxConcurrentTasks"], { placeholder: "any number", number: true })}
          {agent && line("Port", ["port"], { placeholder: "4096", number: true })}
        </FieldPair>
      </FormSection>
      {agent && (
        <FormSection title="Rest and storage">
          {line("Suspend when idle for", ["standby", "idleTimeout"], {
            field: "standby",
            placeholder: "30m",
            hint: "It wakes by itself when a Task comes.",
          })}
          <FieldPair>
            {line("Keep sessions on", ["persistence", "sessions", "size"], {
              placeholder: "1Gi",
              hint: "Empty: sessions go with the Pod.",
            })}
            {line("Keep the workspace on", ["persistence", "workspace", "size"], {
              placeholder: "10Gi",
              hint: "Empty: files go with the Pod.",
            })}
          </FieldPair>
        </FormSection>
      )}
      <FormSection title="Skills">
        <SkillsField manifest={manifest} problem={problems.skills} />
      </FormSection>
      <FormSection title="Plugins">
        <PluginsField manifest={manifest} problem={problems.plugins} />
      </FormSection>
    </>
  );
}
