import { useSearchParams } from "react-router";
import { CRON_TASK } from "../../api/kinds";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { type Manifest, skeleton, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import type { Start } from "../../forms/start";
import { TaskFields } from "../../forms/TaskFields";
import { precheckTask, shownTaskFields } from "../../forms/taskForm";
import { NewPage } from "../NewPage";
import { ScheduleFields } from "./ScheduleFields";

const AT = ["spec", "taskTemplate", "spec"];
const OWN = ["schedule", "timeZone", "concurrencyPolicy", "maxRetainedTasks"];

function precheck(manifest: Manifest): Record<string, string> {
  const problems = precheckTask(manifest, AT);
  if (manifest.text(["metadata", "name"]) === "") problems.name = "Give it a name.";
  if (manifest.text(["spec", "schedule"]).trim() === "") problems.schedule = "Say when.";
  return problems;
}

export default function CronTaskCreate() {
  return <NewPage kind={CRON_TASK}>{(start) => <CronTaskForm start={start} />}</NewPage>;
}

function CronTaskForm({ start }: { start: Start }) {
  const [params] = useSearchParams();
  const manifest = useManifest(() => {
    const agent = params.get("agent");
    return skeleton("CronTask", start.namespace, {
      schedule: "0 9 * * 1-5",
      timeZone: "UTC",
      taskTemplate: { spec: agent ? { agentRef: { name: agent } } : start.doer },
    });
  });
  return (
    <ManifestForm
      kind={CRON_TASK}
      manifest={manifest}
      shown={(current) => [...OWN, ...shownTaskFields(current, AT)]}
      precheck={precheck}
    >
      {(problems) => (
        <>
          <FormSection title="Where">
            <NameFields manifest={manifest} problems={problems} />
          </FormSection>
          <FormSection title="When">
            <ScheduleFields manifest={manifest} problems={problems} />
          </FormSection>
          <TaskFields manifest={manifest} at={AT} problems={problems} />
        </>
      )}
    </ManifestForm>
  );
}
