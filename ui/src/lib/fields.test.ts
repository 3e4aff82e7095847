import { expect, test } from "vitest";
import { ApiError } from "../api/error";
import { normalField, problemsOf } from "./fields";

test("API paths and form paths are normalized", () => {
  expect(normalField("spec.contexts[0].git.repository")).toBe("contexts.0.git.repository");
  expect(normalField("metadata.name")).toBe("name");
  expect(normalField("spec.taskTemplate.spec.agentRef")).toBe("agentRef");
});

test("an error is assigned to its field, the nearest parent, or the top", () => {
  const error = new ApiError(422, "Invalid", "invalid", [
    { field: "spec.timeout", message: "is no duration" },
    { field: "spec.agentRef.name", message: "does not exist" },
    { field: "spec.budget.maxCost", message: "is no number" },
  ]);
  expect(problemsOf(error, ["timeout", "agentRef"])).toEqual({
    byField: { timeout: "is no duration", agentRef: "does not exist" },
    other: ["spec.budget.maxCost: is no number"],
  });
});

test("an error without a field is shown as a message", () => {
  expect(problemsOf(new ApiError(403, "Forbidden", "not allowed"), ["name"]).other).toEqual(["not allowed"]);
});
