import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { useSelection } from "../../list/selection";
import { aTask } from "../../test/bodies";
import { renderPage, stubServer } from "../../test/wrap";
import { BulkBar } from "./BulkBar";

const tasks = [
  aTask({ name: "runs", phase: "Running" }),
  aTask({ name: "waits", phase: "Queued" }),
  aTask({ name: "done", phase: "Completed", reason: "Succeeded" }),
];

function Page() {
  const selection = useSelection<(typeof tasks)[number]>();
  return (
    <>
      <button type="button" onClick={() => selection.set(tasks, true)}>
        Select all
      </button>
      <BulkBar selection={selection} />
    </>
  );
}

async function choose(action: string) {
  renderPage(<Page />);
  await userEvent.click(screen.getByRole("button", { name: "Select all" }));
  expect(screen.getByRole("toolbar")).toHaveTextContent("3 selected");
  await userEvent.click(screen.getByRole("button", { name: action }));
}

test("the dialog names the count, and Tasks to which the action does not apply are left out", async () => {
  const sent = stubServer(() => ({ body: {} }));
  await choose("Stop");
  expect(screen.getByRole("dialog", { name: "Stop 2 Tasks?" })).toHaveTextContent("Left out: 1 selected Task");
  await userEvent.click(screen.getByRole("button", { name: "Stop 2 Tasks" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(sent.map(({ method, address }) => `${method} ${address}`).sort()).toEqual([
    "POST /api/v1/namespaces/n/tasks/runs/stop",
    "POST /api/v1/namespaces/n/tasks/waits/stop",
  ]);
  expect(screen.getByRole("toolbar")).toHaveTextContent("1 selected");
});

test("each failure is reported with its Task, and only failed Tasks are tried again", async () => {
  let refused = true;
  const sent = stubServer(({ address }) =>
    refused && address.endsWith("/waits")
      ? { status: 403, body: { error: "Forbidden", message: "user may not delete it", code: 403 } }
      : { body: {} },
  );
  await choose("Delete");
  await userEvent.click(screen.getByRole("button", { name: "Delete 3 Tasks" }));
  const dialog = await screen.findByRole("dialog", { name: "1 Task failed" });
  expect(dialog).toHaveTextContent("waits: user may not delete it");
  expect(dialog).toHaveTextContent("succeeded for 2");
  expect(screen.getByRole("toolbar", { hidden: true })).toHaveTextContent("1 selected");
  refused = false;
  sent.length = 0;
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(sent.map(({ address }) => address)).toEqual(["/api/v1/namespaces/n/tasks/waits"]);
});

test("without a selection there is no toolbar", () => {
  renderPage(<Page />);
  expect(screen.queryByRole("toolbar")).toBeNull();
});
