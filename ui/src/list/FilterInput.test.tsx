import { act, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FilterInput } from "./FilterInput";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function filter() {
  const told: string[] = [];
  const input = (value: string) => (
    <FilterInput label="Name" placeholder="" value={value} onValue={(text) => told.push(text)} />
  );
  const { rerender } = render(input(""));
  return {
    told,
    field: screen.getByRole("searchbox"),
    type: (text: string) => fireEvent.change(screen.getByRole("searchbox"), { target: { value: text } }),
    pause: () => act(() => vi.advanceTimersByTime(1_000)),
    arrive: (value: string) => rerender(input(value)),
  };
}

test("typing is told after a pause, not letter by letter", () => {
  const { told, type, pause } = filter();
  type("a");
  type("ab");
  expect(told).toEqual([]);
  pause();
  expect(told).toEqual(["ab"]);
});

test("what is typed while the filter is being applied stays", () => {
  const { told, field, type, pause, arrive } = filter();
  type("a");
  pause();
  type("ab");
  arrive("a");
  expect(field).toHaveValue("ab");
  pause();
  expect(told).toEqual(["a", "ab"]);
  arrive("ab");
  expect(field).toHaveValue("ab");
});

test("a filter that is taken away elsewhere does not come back", () => {
  const { told, field, type, pause, arrive } = filter();
  type("a");
  pause();
  arrive("a");
  type("ab");
  arrive("");
  expect(field).toHaveValue("");
  pause();
  expect(told).toEqual(["a"]);
});
