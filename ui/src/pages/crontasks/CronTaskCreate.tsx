import { useSearchParams } from "react-router";
import { CRON_TASK } from "../../api/kinds";
import { Page } from "../../app/Page";
import { PageHeader } from "../../components/PageHeader";
import { FormSection } from "../../forms/FormSection";
import { ManifestForm } from "../../forms/ManifestForm";
import { type Manifest, skeleton, useManifest } from "../../forms/manifest";
import { NameFields } from "../../forms/NameFields";
import { useStartNamespace } from "../../forms/startNamespace";
import { TaskFields } from "../../forms/TaskFields";
import { precheckTask, shownTaskFields } from "../../forms/taskForm";
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
  const [params] = useSearchParams();
  const namespace = useStartNamespace();
  const manifest = useManifest(() => {
    const agent = params.get("agent");
    return skeleton("CronTask", namespace, {
      schedule: "0 9 * * 1-5",
      timeZone: "UTC",
      taskTemplate: { spec: agent ? { agentRef: { name: agent } } : {} },
    });
  });
  return (
    <Page>
      <PageHeader title="New CronTask" crumbs={[{ label: "CronTasks", to: "/crontasks" }]} sub={CRON_TASK.about} />
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
    </Page>
  );
}
