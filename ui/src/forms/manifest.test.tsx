import { act, renderHook } from "@testing-library/react";
import { expect, test } from "vitest";
import { newObject, useManifest, withName, withValue } from "./manifest";

test("an emptied field removes its empty parents", () => {
  expect(
    withValue({ spec: { agentRef: { name: "a" }, timeout: "5m" } }, ["spec", "agentRef", "name"], undefined),
  ).toEqual({
    spec: { timeout: "5m" },
  });
});

test("a list entry is replaced and removed by its index", () => {
  const list = { spec: { contexts: [{ type: "Text" }, { type: "Git" }] } };
  expect(withValue(list, ["spec", "contexts", 1, "type"], "URL")).toEqual({
    spec: { contexts: [{ type: "Text" }, { type: "URL" }] },
  });
  expect(withValue(list, ["spec", "contexts", 0], undefined)).toEqual({ spec: { contexts: [{ type: "Git" }] } });
});

test("form and YAML show the same object, and unknown fields survive the form", () => {
  const { result } = renderHook(() => useManifest(() => newObject("Task", "default")));
  act(() => result.current.setYaml("kind: Task\nspec:\n  priority: 7\n  description: old\n"));
  expect(result.current.text(["spec", "description"])).toBe("old");
  act(() => result.current.set(["spec", "description"], "new"));
  expect(result.current.yaml).toContain("description: new");
  expect(result.current.yaml).toContain("priority: 7");
});

test("invalid YAML is reported and keeps the form", () => {
  const { result } = renderHook(() => useManifest(() => newObject("Task", "default", { description: "kept" })));
  act(() => result.current.setYaml("spec: [broken"));
  expect(result.current.syntaxError).toBeDefined();
  expect(result.current.yaml).toBe("spec: [broken");
  expect(result.current.text(["spec", "description"])).toBe("kept");
});

test("a Task without a name requests a generated name", () => {
  expect(withName(newObject("Task", "default"), "task-").metadata).toEqual({
    namespace: "default",
    generateName: "task-",
  });
});
