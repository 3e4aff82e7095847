import { TriangleAlert } from "lucide-react";
import type { CronTask } from "../../api/types";
import { LinkButton } from "../../components/LinkButton";
import { Notice } from "../../components/Notice";
import { sentence } from "../../lib/format";
import { blockedBy } from "./cronStatus";

/** Why a CronTask creates no Tasks, and the Tasks to delete. */
export function BlockedNotice({ cron }: { cron: CronTask }) {
  const blocked = blockedBy(cron);
  if (!blocked) return null;
  const tasks = `/tasks?crontask=${encodeURIComponent(cron.name)}&namespace=${encodeURIComponent(cron.namespace)}`;
  return (
    <Notice
      tone="warn"
      icon={<TriangleAlert size={15} aria-hidden="true" />}
      action={
        <LinkButton small to={tasks}>
          Show its Tasks
        </LinkButton>
      }
    >
      Blocked: no runs start. {sentence(blocked.message)}
    </Notice>
  );
}
