import { CalendarClock } from "lucide-react";
import type { Summary } from "../../api/types";
import { Ago } from "../../components/Ago";
import { EmptyState } from "../../components/EmptyState";
import { ObjectLink } from "../../components/ObjectLink";
import { Rows } from "../../components/Rows";

export function NextRuns({ next }: { next: Summary["cronTasks"]["next"] }) {
  if (next.length === 0) return <EmptyState small icon={<CalendarClock size={20} />} title="No scheduled runs" />;
  return (
    <Rows
      rows={next.map((run) => ({
        key: `${run.namespace}/${run.name}`,
        name: <ObjectLink kind="CronTask" namespace={run.namespace} name={run.name} />,
        fact: (
          <span className="quiet">
            <Ago at={run.at} />
          </span>
        ),
      }))}
    />
  );
}
