import { CalendarClock } from "lucide-react";
import { Link } from "react-router";
import type { Summary } from "../../api/types";
import { Ago } from "../../components/Ago";
import { EmptyState } from "../../components/EmptyState";
import { Notice } from "../../components/Notice";
import { ObjectLink } from "../../components/ObjectLink";
import { Rows } from "../../components/Rows";
import { Stack } from "../../components/Stack";
import { plural } from "../../lib/format";

/** The next scheduled runs. CronTasks that are blocked have none and are counted. */
export function NextRuns({ cronTasks: { next, blocked } }: { cronTasks: Summary["cronTasks"] }) {
  return (
    <Stack gap={3}>
      {blocked > 0 && (
        <Notice tone="warn">
          <Link to="/crontasks">
            {plural(blocked, "CronTask")} {blocked === 1 ? "is" : "are"} blocked
          </Link>{" "}
          and {blocked === 1 ? "starts" : "start"} no runs.
        </Notice>
      )}
      {next.length === 0 ? (
        <EmptyState small icon={<CalendarClock size={20} />} title="No scheduled runs" />
      ) : (
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
      )}
    </Stack>
  );
}
