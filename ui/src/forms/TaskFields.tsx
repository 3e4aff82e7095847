import { AGENT, AGENT_TEMPLATE } from "../api/kinds";
import { useChoices } from "../api/objects";
import type { Agent, AgentTemplate } from "../api/types";
import { Field } from "../components/Field";
import { Segmented } from "../components/Segmented";
import { Select } from "../components/Select";
import { TextArea } from "../components/TextArea";
import { TextInput } from "../components/TextInput";
import { agentStatus } from "../lib/phase";
import { ContextsField } from "./ContextsField";
import { FieldPair } from "./FieldPair";
import { FormSection } from "./FormSection";
import type { Manifest, Path } from "./manifest";

export interface TaskFieldsProps {
  manifest: Manifest;
  /** Path of the Task spec in the object. */
  at: Path;
  problems: Record<string, string>;
}

/** Form fields of a Task spec; shared by Task and CronTask. */
export function TaskFields({ manifest, at, problems }: TaskFieldsProps) {
  const namespace = manifest.text(["metadata", "namespace"]);
  const agents = useChoices<Agent>(AGENT, namespace);
  const templates = useChoices<AgentTemplate>(AGENT_TEMPLATE, namespace);
  const agent = manifest.text([...at, "agentRef", "name"]);
  const template = manifest.text([...at, "templateRef", "name"]);
  const by =
    template !== "" || (agent === "" && agents.data?.length === 0 && templates.data?.length) ? "template" : "agent";

  const choose = (kind: "agent" | "template", name: string | undefined) => {
    const other = kind === "agent" ? "templateRef" : "agentRef";
    manifest.set([...at, other], undefined);
    manifest.set([...at, kind === "agent" ? "agentRef" : "templateRef"], name ? { name } : undefined);
  };
  const options = {
    agent: (agents.data ?? []).map((item) => ({
      value: item.name,
      label: `${item.name} · ${agentStatus({ ...item, ready: item.serverStatus?.ready }).label}${item.queueLength ? ` · ${item.queueLength} waiting` : ""}`,
    })),
    template: (templates.data ?? []).map((item) => ({ value: item.name, label: item.name })),
  };
  const chosen = by === "agent" ? agent : template;
  const listed = options[by];
  const withChosen =
    chosen !== "" && !listed.some((option) => option.value === chosen)
      ? [{ value: chosen, label: `${chosen} · not found` }, ...listed]
      : listed;

  return (
    <>
      <FormSection title="Task">
        <Field
          label="Description"
          required
          problem={problems.description}
          hint="Instructions for the agent, in plain language."
        >
          {(parts) => (
            <TextArea
              {...parts}
              rows={6}
              value={manifest.text([...at, "description"])}
              placeholder="Find out why the login test fails and fix it. Run the tests before you finish."
              onValue={(value) => manifest.set([...at, "description"], value)}
            />
          )}
        </Field>
      </FormSection>
      <FormSection title="Run on">
        <Segmented
          label="Agent or template"
          value={by}
          options={[
            { value: "agent", label: "An Agent" },
            { value: "template", label: "A template" },
          ]}
          onValue={(next) => choose(next, options[next][0]?.value)}
        />
        <Field
          label={by === "agent" ? "Agent" : "Template"}
          required
          problem={problems.agentRef ?? problems.templateRef}
          hint={
            by === "agent"
              ? "Already running: the Task starts when a slot is free."
              : "The Task runs in its own Pod, created from the template."
          }
        >
          {(parts) => (
            <Select
              {...parts}
              value={chosen}
              onValue={(name) => choose(by, name)}
              options={[
                { value: "", label: listed.length === 0 ? `None in namespace ${namespace}` : "Select…" },
                ...withChosen,
              ]}
            />
          )}
        </Field>
        <FieldPair>
          <Field
            label="Timeout"
            problem={problems.timeout}
            hint="Measured from the start of the run, for example 30m or 2h."
          >
            {(parts) => (
              <TextInput
                {...parts}
                value={manifest.text([...at, "timeout"])}
                placeholder="30m"
                onValue={(value) => manifest.set([...at, "timeout"], value)}
              />
            )}
          </Field>
          <Field label="Priority" problem={problems.priority} hint="Higher priority runs first.">
            {(parts) => (
              <TextInput
                {...parts}
                inputMode="numeric"
                value={manifest.text([...at, "priority"])}
                placeholder="0"
                onValue={(value) =>
                  manifest.set([...at, "priority"], value === "" || Number.isNaN(Number(value)) ? value : Number(value))
                }
              />
            )}
          </Field>
        </FieldPair>
      </FormSection>
      <FormSection title="Context">
        <ContextsField manifest={manifest} at={[...at, "contexts"]} problems={problems} />
      </FormSection>
    </>
  );
}
