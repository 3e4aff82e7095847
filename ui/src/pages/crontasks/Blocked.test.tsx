import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { CronTask } from "../../api/types";
import { Toasts } from "../../components/Toasts";
import { renderPage, stubServer } from "../../test/wrap";
import { BlockedNotice } from "./BlockedNotice";
import { CronTaskActions } from "./CronTaskActions";
import { cronStatus, nextRun } from "./cronStatus";
import { UpcomingCard } from "./UpcomingCard";

const cron: CronTask = {
  name: "nightly",
  namespace: "shop",
  schedule: "@daily",
  concurrencyPolicy: "Forbid",
  suspend: false,
  maxRetainedTasks: 2,
  active: 0,
  activeTasks: [],
  totalExecutions: 2,
  nextScheduleTime: "2026-11-19T00:00:00Z",
  taskTemplate: {},
  conditions: [
    {
      type: "Blocked",
      status: "True",
      reason: "RetentionLimitReached",
      message: "2 Tasks exist and maxRetainedTasks is 2; delete Tasks or raise the limit",
    },
  ],
};

test("a blocked CronTask has a status, a warning and no next run", () => {
  stubServer(() => ({ body: { schedule: "@daily", timeZone: "UTC", suspended: false, times: [] } }));
  expect(cronStatus(cron)).toEqual({ tone: "warn", label: "Blocked: retention limit reached" });
  expect(nextRun(cron)).toBeUndefined();
  expect(nextRun({ ...cron, conditions: [] })).toBe(cron.nextScheduleTime);
  renderPage(
    <>
      <BlockedNotice cron={cron} />
      <UpcomingCard cron={cron} />
    </>,
  );
  expect(screen.getByRole("status")).toHaveTextContent(/no runs start.*delete Tasks or raise the limit/);
  expect(screen.getByRole("link", { name: "Show its Tasks" })).toHaveAttribute(
    "href",
    "/tasks?crontask=nightly&namespace=shop",
  );
  expect(screen.getByText(/No runs are scheduled/)).toBeInTheDocument();
  expect(screen.queryByText("This schedule never fires.")).toBeNull();
});

test("a refused run shows the sentence of the server, not a success", async () => {
  const message = "CronTask 'nightly' keeps 2 of 2 Tasks: delete Tasks or raise maxRetainedTasks";
  stubServer(({ method }) =>
    method === "POST" ? { status: 409, body: { error: "Conflict", message, code: 409 } } : { body: { allowed: [] } },
  );
  renderPage(
    <>
      <CronTaskActions cron={cron} />
      <Toasts />
    </>,
  );
  await userEvent.click(await screen.findByRole("button", { name: "Run now" }));
  expect(await screen.findByText(message)).toBeInTheDocument();
  expect(screen.queryByText("Run triggered.")).toBeNull();
});
