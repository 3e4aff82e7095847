import { CalendarClock } from "lucide-react";
import type { Summary } from "../../api/types";
import { Ago } from "../../components/Ago";
import { EmptyState } from "../../components/EmptyState";
import { ObjectLink } from "../../components/ObjectLink";
import styles from "./ReasonBars.module.css";

export function NextRuns({ next }: { next: Summary["cronTasks"]["next"] }) {
  if (next.length === 0) return <EmptyState small icon={<CalendarClock size={20} />} title="Nothing is scheduled" />;
  return (
    <ul className={styles.list}>
      {next.map((run) => (
        <li key={`${run.namespace}/${run.name}`} className={styles.item}>
          <div className={styles.head}>
            <ObjectLink kind="CronTask" namespace={run.namespace} name={run.name} />
            <span className="quiet">
              <Ago at={run.at} />
            </span>
          </div>
        </li>
      ))}
    </ul>
  );
}
