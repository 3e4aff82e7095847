import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { aTask } from "../../test/bodies";
import { PhaseTimeline } from "./PhaseTimeline";

const task = aTask({
  phase: "Completed",
  createdAt: "2026-11-16T10:00:00Z",
  timings: { queuedAt: "2026-11-16T10:00:00Z", admittedAt: "2026-11-16T10:01:00Z" },
  startTime: "2026-11-16T10:01:30Z",
  completionTime: "2026-11-16T10:06:30Z",
});

test("the stages are described for screen readers", () => {
  render(<PhaseTimeline task={task} />);
  expect(screen.getByRole("img")).toHaveAccessibleName("Queued 1m, Preparing 30s, Running 5m");
  expect(screen.getByText("6m 30s total")).toBeInTheDocument();
});

test("the bar is proportional to the stages", () => {
  render(<PhaseTimeline task={task} />);
  const parts = [...screen.getByRole("img").children].map((part) => Number((part as HTMLElement).style.flexGrow));
  expect(parts).toEqual([60, 30, 300]);
});

test("an open stage is marked as unfinished", () => {
  const { phase: _phase, completionTime: _end, ...rest } = task;
  render(<PhaseTimeline task={{ ...rest, phase: "Running" }} />);
  expect(screen.getByRole("img").getAttribute("aria-label")).toMatch(/Running .* so far$/);
});

test("a Task that is collecting shows it as unfinished, and the run as finished", () => {
  const { completionTime: _end, ...rest } = task;
  render(<PhaseTimeline task={{ ...rest, phase: "Running", reason: "Collecting" }} />);
  expect(screen.getByRole("img").getAttribute("aria-label")).toMatch(/Running [^,]*, Collecting 0s so far$/);
});
