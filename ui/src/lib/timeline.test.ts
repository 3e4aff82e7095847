import { expect, test } from "vitest";
import type { Task } from "../api/types";
import { aTask } from "../test/bodies";
import { stagesOf } from "./timeline";

const NOW = Date.parse("2026-11-16T10:10:00Z");
const base = aTask({ phase: "Pending", createdAt: "2026-11-16T10:00:00Z" });

test("a waiting Task has one open stage", () => {
  expect(stagesOf({ ...base, phase: "Queued", timings: { queuedAt: "2026-11-16T10:00:00Z" } }, NOW)).toEqual([
    { name: "Queued", seconds: 600, open: true },
  ]);
});

test("a finished Task shows every stage and none is open", () => {
  const task: Task = {
    ...base,
    phase: "Completed",
    timings: {
      queuedAt: "2026-11-16T10:00:00Z",
      admittedAt: "2026-11-16T10:00:30Z",
      collectedAt: "2026-11-16T10:02:45Z",
    },
    startTime: "2026-11-16T10:00:40Z",
    completionTime: "2026-11-16T10:02:40Z",
  };
  expect(stagesOf(task, NOW)).toEqual([
    { name: "Queued", seconds: 30, open: false },
    { name: "Preparing", seconds: 10, open: false },
    { name: "Running", seconds: 120, open: false },
    { name: "Collecting", seconds: 5, open: false },
  ]);
});

test("a Task that failed while preparing has no running stage", () => {
  const task: Task = {
    ...base,
    phase: "Failed",
    timings: { queuedAt: "2026-11-16T10:00:00Z", admittedAt: "2026-11-16T10:00:05Z" },
    completionTime: "2026-11-16T10:01:05Z",
  };
  expect(stagesOf(task, NOW).map((stage) => [stage.name, stage.seconds])).toEqual([
    ["Queued", 5],
    ["Preparing", 60],
  ]);
});

test("a running Task that is collecting says so, since the page knows", () => {
  const task: Task = {
    ...base,
    phase: "Running",
    reason: "Collecting",
    timings: { queuedAt: "2026-11-16T10:00:00Z", admittedAt: "2026-11-16T10:00:00Z" },
    startTime: "2026-11-16T10:00:00Z",
  };
  const shown = (since?: number) =>
    stagesOf(task, NOW, since)
      .slice(2)
      .map(({ name, seconds, open }) => [name, seconds, open]);
  expect(shown(NOW - 30_000)).toEqual([
    ["Running", 570, false],
    ["Collecting", 30, true],
  ]);
  expect(shown()).toEqual([
    ["Running", 600, false],
    ["Collecting", 0, true],
  ]);
});

test("a run that keeps nothing has no collecting stage", () => {
  const task: Task = { ...base, phase: "Completed", startTime: base.createdAt, completionTime: "2026-11-16T10:02:40Z" };
  expect(stagesOf(task, NOW).map(({ name }) => name)).toEqual(["Queued", "Running"]);
});
