import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { CronStrip } from "./CronStrip";

const daily = { schedule: "@daily", timeZone: "Europe/Berlin", suspended: false };
const at = (local: string) => ({ at: local, local });

test("each day lists its times and counts the rest", () => {
  const times = ["00", "06", "12", "18"].map((hour) => at(`2026-11-16T${hour}:00:00+01:00`));
  render(<CronStrip upcoming={{ ...daily, times }} />);
  expect(screen.getByRole("list", { name: "Next runs, Europe/Berlin" })).toBeInTheDocument();
  expect(screen.getByText("Mon 16 Nov")).toBeInTheDocument();
  expect(screen.getByText("12:00")).toBeInTheDocument();
  expect(screen.getByText("and 1 more")).toBeInTheDocument();
});

test("a gap between days is shown", () => {
  render(<CronStrip upcoming={{ ...daily, times: [at("2026-11-20T09:00:00Z"), at("2026-11-23T09:00:00Z")] }} />);
  expect(screen.getByText(/2 days/)).toBeInTheDocument();
});

test("a schedule that never fires is reported", () => {
  render(<CronStrip upcoming={{ ...daily, times: [] }} />);
  expect(screen.getByText("This schedule never fires.")).toBeInTheDocument();
});
