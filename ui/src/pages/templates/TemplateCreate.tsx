import { AGENT_TEMPLATE } from "../../api/kinds";
import { Page } from "../../app/Page";
import { PageHeader } from "../../components/PageHeader";
import { AgentFields } from "../../forms/AgentFields";
import { precheckAgent, SHOWN_AGENT_FIELDS } from "../../forms/agentForm";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { skeleton, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { useStartNamespace } from "../../forms/startNamespace";

export default function TemplateCreate() {
  const namespace = useStartNamespace();
  const manifest = useManifest(() =>
    skeleton("AgentTemplate", namespace, { workspaceDir: "/workspace", serviceAccountName: "default" }),
  );
  return (
    <Page>
      <PageHeader title="New template" crumbs={[{ label: "Templates", to: "/templates" }]} sub={AGENT_TEMPLATE.about} />
      <ManifestForm kind={AGENT_TEMPLATE} manifest={manifest} shown={() => SHOWN_AGENT_FIELDS} precheck={precheckAgent}>
        {(problems) => (
          <>
            <FormSection title="Where">
              <NameFields manifest={manifest} problems={problems} />
            </FormSection>
            <AgentFields manifest={manifest} problems={problems} />
          </>
        )}
      </ManifestForm>
    </Page>
  );
}
