import type { Upcoming } from "../../api/types";

export interface StripDay {
  /** `2026-11-16` in the zone of the times. */
  date: string;
  /** `09:00` */
  times: string[];
  /** Hours of the day with a run. */
  hours: Set<number>;
  /** Days without a run since the day before in the strip. */
  gap: number;
}

const DAY_MS = 86_400_000;

/** Runs by day. The server returns local times, so no time zone conversion is needed. */
export function daysOf(times: Upcoming["times"], most: number): StripDay[] {
  const days: StripDay[] = [];
  for (const { local } of times) {
    const date = local.slice(0, 10);
    let day = days.at(-1);
    if (day?.date !== date) {
      if (days.length === most) break;
      const gap = day ? Math.round((Date.parse(date) - Date.parse(day.date)) / DAY_MS) - 1 : 0;
      day = { date, times: [], hours: new Set(), gap };
      days.push(day);
    }
    day?.times.push(local.slice(11, 16));
    day?.hours.add(Number(local.slice(11, 13)));
  }
  return days;
}

/** `Mon 16 Nov`, of a date without a zone. */
export function dayLabel(date: string): string {
  return new Date(`${date}T00:00:00Z`).toLocaleDateString("en-GB", {
    weekday: "short",
    day: "numeric",
    month: "short",
    timeZone: "UTC",
  });
}
