import { fireEvent, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { useLocation } from "react-router";
import { expect, test, vi } from "vitest";
import { renderPage, stubServer } from "../test/wrap";
import { CommandPalette } from "./CommandPalette";
import { useCommandKey } from "./shortcuts";

function Shown() {
  const [open, setOpen] = useState(true);
  const { pathname } = useLocation();
  return (
    <>
      <p>at {pathname}</p>
      <CommandPalette open={open} onClose={() => setOpen(false)} />
    </>
  );
}

const input = () => screen.getByRole("combobox");
const selected = () => screen.getByRole("option", { selected: true });

test("arrow keys choose, the input names the active option, Enter opens it", async () => {
  stubServer(() => ({ body: { results: [] } }));
  renderPage(<Shown />);
  expect(input()).toHaveFocus();
  expect(selected()).toHaveTextContent("New Task");
  await userEvent.keyboard("{ArrowUp}");
  expect(selected()).toHaveTextContent("Configuration");
  await userEvent.keyboard("{ArrowDown}{ArrowDown}");
  expect(selected()).toHaveTextContent("New CronTask");
  expect(input()).toHaveAttribute("aria-activedescendant", selected().id);
  await userEvent.keyboard("{Enter}");
  expect(screen.getByText("at /crontasks/create")).toBeInTheDocument();
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("an object is found by its title and opened", async () => {
  const results = [{ kind: "Task", namespace: "shop", name: "fix-1", title: "Fix the login" }];
  const sent = stubServer(() => ({ body: { results } }));
  renderPage(<Shown />);
  await userEvent.type(input(), "login");
  const option = await screen.findByRole("option", { name: /Fix the login/ });
  expect(option).toHaveTextContent("Task fix-1 · shop");
  expect(sent.map((call) => call.address)).toEqual(["/api/v1/search?text=login"]);
  await userEvent.click(option);
  expect(screen.getByText("at /tasks/shop/fix-1")).toBeInTheDocument();
});

test("no match and a failed search are reported", async () => {
  stubServer(() => ({ status: 503, body: { error: "Unavailable", message: "try again", code: 503 } }));
  renderPage(<Shown />);
  await userEvent.type(input(), "zzz");
  await waitFor(() => expect(screen.getByRole("status")).toHaveTextContent("Objects cannot be searched: try again"));
});

const run = vi.fn();

function WithKey() {
  useCommandKey(run);
  return (
    <>
      <input aria-label="input" />
      <div className="xterm">terminal</div>
    </>
  );
}

test("Ctrl-K opens it also from an input", () => {
  renderPage(<WithKey />);
  fireEvent.keyDown(screen.getByLabelText("input"), { key: "k", ctrlKey: true });
  fireEvent.keyDown(document.body, { key: "k", metaKey: true });
  fireEvent.keyDown(document.body, { key: "k" });
  fireEvent.keyDown(screen.getByText("terminal"), { key: "k", ctrlKey: true });
  expect(run).toHaveBeenCalledTimes(2);
});
