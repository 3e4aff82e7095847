import { expect, test } from "vitest";
import { taskStatus } from "./phase";

test.each([
  ["Completed", "UserStopped", "Stopped"],
  ["Completed", "Timeout", "Stopped"],
  ["Completed", "Succeeded", "Completed"],
  ["Failed", "BudgetExceeded", "Failed"],
  ["Running", "Collecting", "Collecting"],
  ["Failed", "CollectFailed", "Failed"],
] as const)("%s with the reason %s is %s", (phase, reason, label) => {
  expect(taskStatus({ phase, reason }).label).toBe(label);
});
