import { AGENT_TEMPLATE } from "../../api/kinds";
import { AgentFields } from "../../forms/AgentFields";
import { precheckAgent, shownAgentFields } from "../../forms/agentForm";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { newObject, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { NewPage } from "../NewPage";

export default function TemplateCreate() {
  return <NewPage kind={AGENT_TEMPLATE}>{({ namespace }) => <TemplateForm namespace={namespace} />}</NewPage>;
}

function TemplateForm({ namespace }: { namespace: string }) {
  const manifest = useManifest(() =>
    newObject("AgentTemplate", namespace, { workspaceDir: "/workspace", serviceAccountName: "default" }),
  );
  return (
    <ManifestForm kind={AGENT_TEMPLATE} manifest={manifest} shown={shownAgentFields} precheck={precheckAgent}>
      {(problems) => (
        <>
          <FormSection title="Namespace and name">
            <NameFields manifest={manifest} problems={problems} />
          </FormSection>
          <AgentFields manifest={manifest} problems={problems} />
        </>
      )}
    </ManifestForm>
  );
}
