import { act, renderHook } from "@testing-library/react";
import { expect, test } from "vitest";
import { aTask } from "../test/bodies";
import { useSelection } from "./selection";

test("a selected object is replaced by its newer version, others are not added", () => {
  const { result } = renderHook(() => useSelection<ReturnType<typeof aTask>>());
  const [a, b] = [aTask({ name: "a" }), aTask({ name: "b" })];
  act(() => result.current.set([a], true));
  const before = result.current.items;
  act(() => result.current.refresh([a, b]));
  expect(result.current.items).toEqual(before);
  act(() => result.current.refresh([{ ...a, phase: "Completed" }, b]));
  expect(result.current.items.map(({ name, phase }) => [name, phase])).toEqual([["a", "Completed"]]);
  act(() => result.current.set([a], false));
  expect(result.current.items).toEqual([]);
});
