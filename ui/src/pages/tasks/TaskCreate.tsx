import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useSearchParams } from "react-router";
import { parse } from "yaml";
import { callText, objectPath } from "../../api/client";
import { TASK } from "../../api/kinds";
import { ErrorState } from "../../components/ErrorState";
import { Notice } from "../../components/Notice";
import { FormSection } from "../../forms/FormSection";
import type { FormDefaults } from "../../forms/formDefaults";
import { ManifestForm } from "../../forms/ManifestForm";
import { type Json, newObject, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { TaskFields } from "../../forms/TaskFields";
import { precheckTask, shownTaskFields } from "../../forms/taskForm";
import { NewPage } from "../NewPage";

const AT = ["spec"];

/** A copy of the spec of a Task, without its name, which must be unique. */
function duplicateOf(source: Json, namespace: string): Json {
  return newObject("Task", namespace, (source.spec as Json | undefined) ?? {});
}

/** `?agent=` and `?template=` preselect the target; `?rerun=NAME&namespace=NS` copies another Task. */
export default function TaskCreate() {
  return <NewPage kind={TASK}>{(defaults) => <TaskForm defaults={defaults} />}</NewPage>;
}

function TaskForm({ defaults }: { defaults: FormDefaults }) {
  const [params] = useSearchParams();
  const namespace = params.get("namespace")?.replace("*", "") || defaults.namespace;
  const source = params.get("rerun");
  const manifest = useManifest(() => {
    const agent = params.get("agent");
    const template = params.get("template");
    if (agent) return newObject("Task", namespace, { agentRef: { name: agent } });
    if (template) return newObject("Task", namespace, { templateRef: { name: template } });
    return newObject("Task", namespace, defaults.runsOn);
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
    <>
      {original.error && <ErrorState small error={original.error} onRetry={() => original.refetch()} />}
      {original.data && <Notice tone="idle">A copy of {source}. Edit the differences.</Notice>}
      <ManifestForm
        kind={TASK}
        manifest={manifest}
        generateName="task-"
        shown={(current) => shownTaskFields(current, AT)}
        precheck={(current) => precheckTask(current, AT)}
      >
        {(problems) => (
          <>
            <FormSection title="Namespace and name">
              <NameFields manifest={manifest} problems={problems} nameOptional />
            </FormSection>
            <TaskFields manifest={manifest} at={AT} problems={problems} />
          </>
        )}
      </ManifestForm>
    </>
  );
}
