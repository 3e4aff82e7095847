import type { CronTask } from "../../api/types";
import type { Status } from "../../lib/phase";

export function cronStatus(cron: CronTask): Status {
  if (cron.suspend) return { tone: "idle", label: "Suspended" };
  const ready = cron.conditions?.find((condition) => condition.type === "Ready");
  if (ready?.status === "False") {
    return ready.reason === "InvalidSchedule"
      ? { tone: "bad", label: "Invalid" }
      : { tone: "warn", label: "Blocked: retention limit reached" };
  }
  return (cron.active ?? 0) > 0 ? { tone: "busy", label: "Running" } : { tone: "good", label: "Scheduled" };
}
