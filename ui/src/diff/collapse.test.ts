import { expect, test } from "vitest";
import type { ChangedFile } from "../api/types";
import { isCollapsed, MANY_LINES } from "./collapse";

const file = (part: Partial<ChangedFile>): ChangedFile => ({
  path: "src/a.ts",
  status: "modified",
  insertions: 1,
  deletions: 0,
  binary: false,
  cut: false,
  patch: "",
  ...part,
});

test("large, deleted and generated files are collapsed", () => {
  expect(isCollapsed(file({}))).toBe(false);
  expect(isCollapsed(file({ insertions: MANY_LINES }))).toBe(false);
  expect(isCollapsed(file({ insertions: MANY_LINES, deletions: 1 }))).toBe(true);
  expect(isCollapsed(file({ status: "deleted" }))).toBe(true);
  for (const path of ["package-lock.json", "a/b/Cargo.lock", "dist/app.min.js", "x/__snapshots__/a.snap"]) {
    expect([path, isCollapsed(file({ path }))]).toEqual([path, true]);
  }
  expect(isCollapsed(file({ path: "src/my-Cargo.lock.ts" }))).toBe(false);
  // There is nothing to hide.
  expect(isCollapsed(file({ binary: true, status: "deleted" }))).toBe(false);
});
