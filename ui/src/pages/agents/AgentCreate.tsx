import { useSearchParams } from "react-router";
import { AGENT } from "../../api/kinds";
import { AgentFields } from "../../forms/AgentFields";
import { precheckAgent, shownAgentFields } from "../../forms/agentForm";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { newObject, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { NewPage } from "../NewPage";

export default function AgentCreate() {
  return <NewPage kind={AGENT}>{({ namespace }) => <AgentForm namespace={namespace} />}</NewPage>;
}

function AgentForm({ namespace }: { namespace: string }) {
  const [params] = useSearchParams();
  const manifest = useManifest(() => {
    const template = params.get("template");
    return newObject("Agent", namespace, template ? { templateRef: { name: template } } : {});
  });
  return (
    <ManifestForm kind={AGENT} manifest={manifest} shown={shownAgentFields} precheck={precheckAgent}>
      {(problems) => (
        <>
          <FormSection title="Namespace and name">
            <NameFields manifest={manifest} problems={problems} />
          </FormSection>
          <AgentFields manifest={manifest} problems={problems} agent />
        </>
      )}
    </ManifestForm>
  );
}
