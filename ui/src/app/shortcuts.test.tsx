import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { type Shortcuts, useShortcuts } from "./shortcuts";

function Page({ keys }: { keys: Shortcuts }) {
  useShortcuts(keys);
  return <input aria-label="input" />;
}

test("single keys and pairs run what they are for", () => {
  const [j, gt] = [vi.fn(), vi.fn()];
  render(<Page keys={{ j, "g t": gt }} />);
  fireEvent.keyDown(document.body, { key: "j" });
  fireEvent.keyDown(document.body, { key: "g" });
  fireEvent.keyDown(document.body, { key: "t" });
  expect(j).toHaveBeenCalledTimes(1);
  expect(gt).toHaveBeenCalledTimes(1);
});

test("a key alone is not the second half of a pair", () => {
  const gt = vi.fn();
  render(<Page keys={{ "g t": gt }} />);
  fireEvent.keyDown(document.body, { key: "t" });
  expect(gt).not.toHaveBeenCalled();
});

test("nothing happens while a person types or holds Ctrl", () => {
  const j = vi.fn();
  render(<Page keys={{ j }} />);
  fireEvent.keyDown(screen.getByLabelText("input"), { key: "j" });
  fireEvent.keyDown(document.body, { key: "j", ctrlKey: true });
  expect(j).not.toHaveBeenCalled();
});
