import { Fragment } from "react";
import type { Upcoming } from "../../api/types";
import { classes } from "../../components/classes";
import surface from "../../components/surface.module.css";
import { plural } from "../../lib/format";
import styles from "./CronStrip.module.css";
import { dayLabel, daysOf } from "./strip";

const MAX_DAYS = 10;
const MAX_TIMES = 3;
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

/** The next runs, grouped by day. */
export function CronStrip({ upcoming }: { upcoming: Upcoming }) {
  const days = daysOf(upcoming.times, MAX_DAYS);
  if (days.length === 0) return <p className="quiet">This schedule never fires.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls horizontally on a phone.
    <ol className={styles.strip} aria-label={`Next runs, ${upcoming.timeZone ?? "UTC"}`} tabIndex={0}>
      {days.map((day) => (
        <Fragment key={day.date}>
          {day.gap > 0 && (
            <li className={styles.gap} aria-hidden="true">
              {plural(day.gap, "day")}
              <br />
              later
            </li>
          )}
          <li className={classes(surface.framed, styles.day)}>
            <span className={styles.date}>{dayLabel(day.date)}</span>
            <span className={styles.hours} aria-hidden="true">
              {HOURS.map((hour) => (
                <span key={hour} className={classes(styles.hour, day.hours.has(hour) && styles.run)} />
              ))}
            </span>
            <span className={styles.times}>
              {day.times.slice(0, MAX_TIMES).map((time) => (
                <span key={time}>{time}</span>
              ))}
              {day.times.length > MAX_TIMES && <span>and {day.times.length - MAX_TIMES} more</span>}
            </span>
          </li>
        </Fragment>
      ))}
    </ol>
  );
}
