import { expect, test } from "vitest";
import { rebase } from "./rebase";

const object = (version: string, timeout: string, phase: string) =>
  `metadata:\n  name: a\n  resourceVersion: "${version}"\nspec:\n  timeout: ${timeout}\nstatus:\n  phase: ${phase}\n`;

test("a changed status is no conflict", () => {
  const edited = object("5", "9m", "Queued");
  const moved = rebase(object("5", "5m", "Queued"), object("6", "5m", "Running"), edited);
  expect(moved).toContain('resourceVersion: "6"');
  expect(moved).toContain("timeout: 9m");
});

test("a changed spec is a conflict", () => {
  expect(rebase(object("5", "5m", "Queued"), object("6", "7m", "Queued"), object("5", "9m", "Queued"))).toBeUndefined();
});
