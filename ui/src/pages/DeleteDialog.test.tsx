import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { TASK } from "../api/kinds";
import { renderPage, stubServer } from "../test/wrap";
import { DeleteDialog } from "./DeleteDialog";

function show(onClose: () => void) {
  renderPage(
    <DeleteDialog kind={TASK} namespace="shop" name="fix" open consequences={["its Pod fix-pod"]} onClose={onClose} />,
  );
}

test("consequences are listed before the deletion", () => {
  const sent = stubServer(() => ({ body: {} }));
  show(() => {});
  expect(screen.getByRole("dialog", { name: "Delete Task fix?" })).toBeInTheDocument();
  expect(screen.getByText("its Pod fix-pod")).toBeInTheDocument();
  expect(sent).toHaveLength(0);
});

test("an error is shown and the dialog stays open", async () => {
  stubServer(() => ({ status: 403, body: { error: "Forbidden", message: "You may not delete Tasks", code: 403 } }));
  const onClose = vi.fn();
  show(onClose);
  await userEvent.click(screen.getByRole("button", { name: "Delete Task" }));
  await waitFor(() => expect(screen.getByRole("alert")).toHaveTextContent("You may not delete Tasks"));
  expect(onClose).not.toHaveBeenCalled();
});
