import { expect, test } from "vitest";
import { dayLabel, daysOf } from "./strip";

const at = (local: string) => ({ at: local, local });

test("runs are grouped by the day of the selected time zone", () => {
  // 23:30 UTC on the 15th is the 16th in Berlin; the local time says so.
  const days = daysOf([{ at: "2026-11-15T23:30:00Z", local: "2026-11-16T00:30:00+01:00" }], 7);
  expect(days.map((day) => [day.date, day.times])).toEqual([["2026-11-16", ["00:30"]]]);
});

test("days without runs are counted", () => {
  const days = daysOf([at("2026-11-16T09:00:00Z"), at("2026-11-16T17:00:00Z"), at("2026-11-20T09:00:00Z")], 7);
  expect(days.map((day) => [day.date, day.times.length, day.gap])).toEqual([
    ["2026-11-16", 2, 0],
    ["2026-11-20", 1, 3],
  ]);
  expect([...(days[0]?.hours ?? [])]).toEqual([9, 17]);
});

test("the number of days is limited", () => {
  const many = Array.from({ length: 30 }, (_, i) => at(`2026-11-${String(i + 1).padStart(2, "0")}T09:00:00Z`));
  expect(daysOf(many, 10)).toHaveLength(10);
});

test("a day label does not depend on the local time zone", () => {
  expect(dayLabel("2026-11-16")).toBe("Mon 16 Nov");
});
