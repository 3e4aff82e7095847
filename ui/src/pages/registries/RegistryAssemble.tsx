import { useState } from "react";
import { AGENT, AGENT_TEMPLATE, REGISTRY } from "../../api/kinds";
import { useObject } from "../../api/objects";
import type { Registry } from "../../api/types";
import { useAddress } from "../../app/address";
import { Page } from "../../app/Page";
import { PageHeader } from "../../components/PageHeader";
import { Segmented } from "../../components/Segmented";
import { precheckAgent, shownAgentFields } from "../../forms/agentForm";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { newObject, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { DetailState } from "../DetailState";
import { useNames } from "../useNames";
import { AssetPicker } from "./AssetPicker";
import { assembled, type Choice } from "./assemble";

const KINDS = { agent: AGENT, template: AGENT_TEMPLATE };

/** Creates an AgentTemplate (or an Agent with `?output=agent`) from the selected image, skills and plugins. */
export default function RegistryAssemble() {
  const { namespace, name } = useNames();
  const [params, change] = useAddress();
  const output = params.get("output") === "agent" ? "agent" : "template";
  const query = useObject<Registry>(REGISTRY, namespace, name);
  const [choice, setChoice] = useState<Choice>({ image: [], skills: [], plugins: [] });
  const manifest = useManifest(() =>
    newObject(KINDS[output].kind, namespace, { workspaceDir: "/workspace", serviceAccountName: "default" }),
  );
  const registry = query.data;
  if (!registry || query.error) return <DetailState kind={REGISTRY} name={name} query={query} />;

  const kind = KINDS[output];
  const choose = (next: Choice) => {
    setChoice(next);
    for (const [field, value] of Object.entries(assembled(registry, next))) manifest.set(["spec", field], value);
  };
  return (
    <Page>
      <PageHeader
        title={`Assemble from ${name}`}
        crumbs={[
          { label: "Registries", to: "/registries" },
          { label: name, to: `/registries/${namespace}/${name}` },
        ]}
        actions={
          <Segmented
            label="Create as"
            value={output}
            options={[
              { value: "template", label: "AgentTemplate" },
              { value: "agent", label: "Agent" },
            ]}
            onValue={(next) => {
              change((query) => query.set("output", next));
              manifest.set(["kind"], KINDS[next].kind);
            }}
          />
        }
      />
      <ManifestForm kind={kind} manifest={manifest} shown={shownAgentFields} precheck={precheckAgent}>
        {(problems) => (
          <>
            <FormSection title="Namespace and name">
              <NameFields manifest={manifest} problems={problems} />
            </FormSection>
            <FormSection title="Image">
              <AssetPicker
                label="Image"
                single
                assets={registry.images ?? []}
                chosen={choice.image}
                onChosen={(image) => choose({ ...choice, image })}
              />
            </FormSection>
            <FormSection title="Skills">
              <AssetPicker
                label="Skills"
                assets={registry.skills ?? []}
                chosen={choice.skills}
                onChosen={(skills) => choose({ ...choice, skills })}
              />
            </FormSection>
            <FormSection title="Plugins">
              <AssetPicker
                label="Plugins"
                assets={registry.plugins ?? []}
                chosen={choice.plugins}
                onChosen={(plugins) => choose({ ...choice, plugins })}
              />
            </FormSection>
          </>
        )}
      </ManifestForm>
    </Page>
  );
}
