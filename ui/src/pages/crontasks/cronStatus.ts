import type { Condition, CronTask } from "../../api/types";
import { humanize } from "../../lib/format";
import type { Status } from "../../lib/phase";

/** The condition of a CronTask that creates no Tasks until a person acts. */
export function blockedBy(cron: CronTask): Condition | undefined {
  return cron.conditions.find((condition) => condition.type === "Blocked" && condition.status === "True");
}

/** The time of the next run; none while the CronTask is blocked or suspended. */
export function nextRun(cron: CronTask): string | undefined {
  return cron.suspend || blockedBy(cron) ? undefined : cron.nextScheduleTime;
}

export function cronStatus(cron: CronTask): Status {
  if (cron.suspend) return { tone: "idle", label: "Suspended" };
  const blocked = blockedBy(cron);
  if (blocked) return { tone: "warn", label: `Blocked: ${humanize(blocked.reason).toLowerCase()}` };
  const ready = cron.conditions.find((condition) => condition.type === "Ready");
  if (ready?.status === "False") {
    return ready.reason === "InvalidSchedule"
      ? { tone: "bad", label: "Invalid" }
      : { tone: "warn", label: humanize(ready.reason) };
  }
  return (cron.active ?? 0) > 0 ? { tone: "busy", label: "Running" } : { tone: "good", label: "Scheduled" };
}
