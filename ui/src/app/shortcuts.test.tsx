import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { type Shortcuts, useShortcuts } from "./shortcuts";

function Page({ keys }: { keys: Shortcuts }) {
  useShortcuts(keys);
  return <input aria-label="input" />;
}

test("single keys and sequences run their actions", () => {
  const [j, gt] = [vi.fn(), vi.fn()];
  render(<Page keys={{ j, "g t": gt }} />);
  fireEvent.keyDown(document.body, { key: "j" });
  fireEvent.keyDown(document.body, { key: "g" });
  fireEvent.keyDown(document.body, { key: "t" });
  expect(j).toHaveBeenCalledTimes(1);
  expect(gt).toHaveBeenCalledTimes(1);
});

test("the second key of a sequence alone does nothing", () => {
  const gt = vi.fn();
  render(<Page keys={{ "g t": gt }} />);
  fireEvent.keyDown(document.body, { key: "t" });
  expect(gt).not.toHaveBeenCalled();
});

test("shortcuts are ignored in inputs and with Ctrl", () => {
  const j = vi.fn();
  render(<Page keys={{ j }} />);
  fireEvent.keyDown(screen.getByLabelText("input"), { key: "j" });
  fireEvent.keyDown(document.body, { key: "j", ctrlKey: true });
  expect(j).not.toHaveBeenCalled();
});
