import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useSearchParams } from "react-router";
import { parse } from "yaml";
import { callText, objectPath } from "../../api/client";
import { TASK } from "../../api/kinds";
import { Page } from "../../app/Page";
import { Notice } from "../../components/Notice";
import { PageHeader } from "../../components/PageHeader";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { type Json, skeleton, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { useStartNamespace } from "../../forms/startNamespace";
import { TaskFields } from "../../forms/TaskFields";
import { precheckTask, shownTaskFields } from "../../forms/taskForm";

const AT = ["spec"];

/** A copy of a Task's spec, without a name: two Tasks cannot share one. */
function duplicateOf(source: Json, namespace: string): Json {
  return skeleton("Task", namespace, (source.spec as Json | undefined) ?? {});
}

/** `?agent=`, `?template=` choose who does it; `?rerun=NAME&namespace=NS` starts from another Task. */
export default function TaskCreate() {
  const [params] = useSearchParams();
  const start = useStartNamespace();
  const namespace = params.get("namespace")?.replace("*", "") || start;
  const source = params.get("rerun");
  const manifest = useManifest(() => {
    const agent = params.get("agent");
    const template = params.get("template");
    return skeleton("Task", namespace, {
      ...(agent ? { agentRef: { name: agent } } : {}),
      ...(template ? { templateRef: { name: template } } : {}),
    });
  });
  const original = useQuery({
    queryKey: ["Task", "duplicate", namespace, source],
    queryFn: ({ signal }) =>
      callText(objectPath("tasks", namespace, source ?? ""), { query: { output: "yaml" }, signal }).then(
        (text) => parse(text) as Json,
      ),
    enabled: source !== null,
    staleTime: 0,
  });
  const filled = useRef(false);
  useEffect(() => {
    if (filled.current || !original.data) return;
    filled.current = true;
    manifest.replace(duplicateOf(original.data, namespace));
  }, [original.data, manifest, namespace]);

  return (
    <Page>
      <PageHeader title="New Task" crumbs={[{ label: "Tasks", to: "/tasks" }]} sub={TASK.about} />
      {source && <Notice tone="idle">A copy of {source}. Change what should be different.</Notice>}
      <ManifestForm
        kind={TASK}
        manifest={manifest}
        generateName="task-"
        shown={(current) => shownTaskFields(current, AT)}
        precheck={(current) => precheckTask(current, AT)}
      >
        {(problems) => (
          <>
            <FormSection title="Where">
              <NameFields manifest={manifest} problems={problems} nameOptional />
            </FormSection>
            <TaskFields manifest={manifest} at={AT} problems={problems} />
          </>
        )}
      </ManifestForm>
    </Page>
  );
}
