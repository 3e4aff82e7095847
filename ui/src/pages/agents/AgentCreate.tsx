import { useSearchParams } from "react-router";
import { AGENT } from "../../api/kinds";
import { Page } from "../../app/Page";
import { PageHeader } from "../../components/PageHeader";
import { AgentFields } from "../../forms/AgentFields";
import { precheckAgent, SHOWN_AGENT_FIELDS } from "../../forms/agentForm";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { skeleton, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { useStartNamespace } from "../../forms/startNamespace";

export default function AgentCreate() {
  const [params] = useSearchParams();
  const namespace = useStartNamespace();
  const manifest = useManifest(() => {
    const template = params.get("template");
    return skeleton("Agent", namespace, template ? { templateRef: { name: template } } : {});
  });
  return (
    <Page>
      <PageHeader title="New Agent" crumbs={[{ label: "Agents", to: "/agents" }]} sub={AGENT.about} />
      <ManifestForm
        kind={AGENT}
        manifest={manifest}
        shown={() => SHOWN_AGENT_FIELDS}
        precheck={(current) => precheckAgent(current)}
      >
        {(problems) => (
          <>
            <FormSection title="Where">
              <NameFields manifest={manifest} problems={problems} />
            </FormSection>
            <AgentFields manifest={manifest} problems={problems} agent />
          </>
        )}
      </ManifestForm>
    </Page>
  );
}
