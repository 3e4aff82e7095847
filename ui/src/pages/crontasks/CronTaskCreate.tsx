import { useSearchParams } from "react-router";
import { CRON_TASK } from "../../api/kinds";
import { FormSection } from "../../forms/FormSection";
import type { FormDefaults } from "../../forms/formDefaults";
import { ManifestForm } from "../../forms/ManifestForm";
import { type Manifest, newObject, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { TaskFields } from "../../forms/TaskFields";
import { precheckTask, shownTaskFields } from "../../forms/taskForm";
import { NewPage } from "../NewPage";
import { ScheduleFields } from "./ScheduleFields";

const AT = ["spec", "taskTemplate", "spec"];
const OWN = ["schedule", "timeZone", "concurrencyPolicy", "maxRetainedTasks"];

function precheck(manifest: Manifest): Record<string, string> {
  const problems = precheckTask(manifest, AT);
  if (manifest.text(["metadata", "name"]) === "") problems.name = "Name is required.";
  if (manifest.text(["spec", "schedule"]).trim() === "") problems.schedule = "Schedule is required.";
  return problems;
}

export default function CronTaskCreate() {
  return <NewPage kind={CRON_TASK}>{(defaults) => <CronTaskForm defaults={defaults} />}</NewPage>;
}

function CronTaskForm({ defaults }: { defaults: FormDefaults }) {
  const [params] = useSearchParams();
  const manifest = useManifest(() => {
    const agent = params.get("agent");
    return newObject("CronTask", defaults.namespace, {
      schedule: "0 9 * * 1-5",
      timeZone: "UTC",
      taskTemplate: { spec: agent ? { agentRef: { name: agent } } : defaults.runsOn },
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
          <FormSection title="Namespace and name">
            <NameFields manifest={manifest} problems={problems} />
          </FormSection>
          <FormSection title="Schedule">
            <ScheduleFields manifest={manifest} problems={problems} />
          </FormSection>
          <TaskFields manifest={manifest} at={AT} problems={problems} />
        </>
      )}
    </ManifestForm>
  );
}
