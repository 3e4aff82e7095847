import { AGENT_TEMPLATE, MODEL } from "../api/kinds";
import { useChoices } from "../api/objects";
import type { AgentTemplate, GenericObject } from "../api/types";
import { Field } from "../components/Field";
import { Select } from "../components/Select";
import { TextInput } from "../components/TextInput";
import { agentSections } from "./agentSections";
import { ContextsField } from "./ContextsField";
import { FieldPair } from "./FieldPair";
import { FormSection } from "./FormSection";
import type { Manifest, Path } from "./manifest";
import { PluginsField } from "./PluginsField";
import { SkillsField } from "./SkillsField";
import { SpecFields } from "./SpecFields";

export interface AgentFieldsProps {
  manifest: Manifest;
  problems: Record<string, string>;
  /** Whether to show the fields that only Agents have. */
  agent?: boolean;
}

/** Form fields of an Agent or a template. */
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
      <FormSection title={agent ? "Profile and model" : "Model"}>
        {agent &&
          line("Profile", ["profile"], {
            placeholder: "Fixes bugs in the web shop",
            hint: "Short description shown to users.",
          })}
        <FieldPair>
          {agent &&
            choice(
              "Template",
              "templateRef",
              (templates.data ?? []).map((template) => template.name),
              "None",
              "Provides the fields that are left empty.",
            )}
          {choice(
            "Model",
            "modelRef",
            (models.data ?? []).map((model) => model.name),
            agent ? "From the template or the configuration" : "From the configuration",
            "Main model.",
          )}
        </FieldPair>
      </FormSection>
      <FormSection title="Runtime">
        <FieldPair>
          {line("Executor image", ["executorImage"], { hint: "Image with the tools that the agent uses." })}
          {line("Agent image", ["agentImage"], { hint: "Image that provides the OpenCode binary." })}
        </FieldPair>
        <FieldPair>
          {line("Workspace directory", ["workspaceDir"], { placeholder: "/workspace" })}
          {line("Service account", ["serviceAccountName"], { hint: "Permissions of the Pods in the cluster." })}
        </FieldPair>
        <FieldPair>
          {line("Max concurrent Tasks", ["maxConcurrentTasks"], { placeholder: "unlimited", number: true })}
          {agent && line("Port", ["port"], { placeholder: "4096", number: true })}
        </FieldPair>
      </FormSection>
      {agent && (
        <FormSection title="Idle and persistence">
          {line("Suspend when idle for", ["standby", "idleTimeout"], {
            field: "standby",
            placeholder: "30m",
            hint: "Resumes automatically when a Task arrives.",
          })}
          <FieldPair>
            {line("Session volume size", ["persistence", "sessions", "size"], {
              placeholder: "1Gi",
              hint: "If empty, sessions are lost with the Pod.",
            })}
            {line("Workspace volume size", ["persistence", "workspace", "size"], {
              placeholder: "10Gi",
              hint: "If empty, files are lost with the Pod.",
            })}
          </FieldPair>
        </FormSection>
      )}
      <SpecFields manifest={manifest} problems={problems} sections={agentSections(agent === true)} />
      <FormSection title="Context of every Task">
        <ContextsField manifest={manifest} at={["spec", "contexts"]} problems={problems} />
      </FormSection>
      <FormSection title="Skills">
        <SkillsField manifest={manifest} problem={problems.skills} />
      </FormSection>
      <FormSection title="Plugins">
        <PluginsField manifest={manifest} problem={problems.plugins} />
      </FormSection>
    </>
  );
}
