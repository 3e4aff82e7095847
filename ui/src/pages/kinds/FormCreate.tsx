import type { Kind } from "../../api/kinds";
import { LinkButton } from "../../components/LinkButton";
import { Notice } from "../../components/Notice";
import { FormSection } from "../../forms/FormSection";
import { missingFields, shownFields } from "../../forms/fieldSpecs";
import type { KindForm } from "../../forms/kindForms";
import { ManifestForm } from "../../forms/ManifestForm";
import { type Manifest, newObject, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { SpecFields } from "../../forms/SpecFields";
import { NewPage } from "../NewPage";

/** Creates an object of a kind whose form is described as data. */
export function FormCreate({ kind, form }: { kind: Kind; form: KindForm }) {
  return (
    <NewPage kind={kind}>
      {({ namespace }) => (
        <>
          {kind.kind === "ModelProvider" && (
            <Notice
              tone="idle"
              action={
                <LinkButton small to="/setup">
                  Guided setup
                </LinkButton>
              }
            >
              The guided setup tests a key and creates Secret, provider, model and template together.
            </Notice>
          )}
          <Form kind={kind} form={form} namespace={namespace} />
        </>
      )}
    </NewPage>
  );
}

function Form({ kind, form, namespace }: { kind: Kind; form: KindForm; namespace: string }) {
  const manifest = useManifest(() => newObject(kind.kind, namespace, form.start));
  const precheck = (current: Manifest) => ({
    ...(current.text(["metadata", "name"]) === "" ? { name: "Name is required." } : {}),
    ...missingFields(form.sections, current, ["spec"]),
  });
  return (
    <ManifestForm
      kind={kind}
      manifest={manifest}
      shown={(current) => ["name", "namespace", ...shownFields(form.sections, current)]}
      precheck={precheck}
    >
      {(problems) => (
        <>
          <FormSection title="Namespace and name">
            <NameFields manifest={manifest} problems={problems} />
          </FormSection>
          <SpecFields manifest={manifest} problems={problems} sections={form.sections} />
        </>
      )}
    </ManifestForm>
  );
}
