import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FilterInput } from "./FilterInput";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function filter() {
  const emitted: string[] = [];
  const input = (value: string) => (
    <FilterInput label="Name" placeholder="" value={value} onValue={(text) => emitted.push(text)} />
  );
  const { rerender } = render(input(""));
  return {
    emitted,
    field: screen.getByRole("searchbox"),
    type: (text: string) => fireEvent.change(screen.getByRole("searchbox"), { target: { value: text } }),
    pause: () => act(() => vi.advanceTimersByTime(1_000)),
    arrive: (value: string) => rerender(input(value)),
  };
}

test("input is debounced", () => {
  const { emitted, type, pause } = filter();
  type("a");
  type("ab");
  expect(emitted).toEqual([]);
  pause();
  expect(emitted).toEqual(["ab"]);
});

test("text typed while the filter is applied is kept", () => {
  const { emitted, field, type, pause, arrive } = filter();
  type("a");
  pause();
  type("ab");
  arrive("a");
  expect(field).toHaveValue("ab");
  pause();
  expect(emitted).toEqual(["a", "ab"]);
  arrive("ab");
  expect(field).toHaveValue("ab");
});

test("a filter that is cleared elsewhere stays cleared", () => {
  const { emitted, field, type, pause, arrive } = filter();
  type("a");
  pause();
  arrive("a");
  type("ab");
  arrive("");
  expect(field).toHaveValue("");
  pause();
  expect(emitted).toEqual(["a"]);
});
