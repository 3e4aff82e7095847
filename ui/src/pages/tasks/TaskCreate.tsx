import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { useSearchParams } from "react-router";
import { parse } from "yaml";
import { callText, objectPath } from "../../api/client";
import { TASK } from "../../api/kinds";
import { ErrorState } from "../../components/ErrorState";
import { Notice } from "../../components/Notice";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { type Json, skeleton, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import type { Start } from "../../forms/start";
import { TaskFields } from "../../forms/TaskFields";
import { precheckTask, shownTaskFields } from "../../forms/taskForm";
import { NewPage } from "../NewPage";

const AT = ["spec"];

/** A copy of a Task's spec, without a name: two Tasks cannot share one. */
function duplicateOf(source: Json, namespace: string): Json {
  return skeleton("Task", namespace, (source.spec as Json | undefined) ?? {});
}

/** `?agent=`, `?template=` choose who does it; `?rerun=NAME&namespace=NS` starts from another Task. */
export default function TaskCreate() {
  return <NewPage kind={TASK}>{(start) => <TaskForm start={start} />}</NewPage>;
}

function TaskForm({ start }: { start: Start }) {
  const [params] = useSearchParams();
  const namespace = params.get("namespace")?.replace("*", "") || start.namespace;
  const source = params.get("rerun");
  const manifest = useManifest(() => {
    const agent = params.get("agent");
    const template = params.get("template");
    if (agent) return skeleton("Task", namespace, { agentRef: { name: agent } });
    if (template) return skeleton("Task", namespace, { templateRef: { name: template } });
    return skeleton("Task", namespace, start.doer);
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
      {original.data && <Notice tone="idle">A copy of {source}. Change what should be different.</Notice>}
      <ManifestForm
        kind={TASK}
        manifest={manifest}
        generateName="task-"
        shown={(current) => shownTaskFields(current, AT)}
        precheck={(current) => precheckTask(current, AT)}
      >
        {(problems) => (
          <>
            <TaskFields manifest={manifest} at={AT} problems={problems} />
            <FormSection title="Where">
              <NameFields manifest={manifest} problems={problems} nameOptional />
            </FormSection>
          </>
        )}
      </ManifestForm>
    </>
  );
}
