import { expect, test } from "vitest";
import { readState } from "./listState";

const sort = { by: "createdAt", order: "desc" } as const;

test("the URL contains the state of a list", () => {
  const params = new URLSearchParams("name=fix&phase=Failed&sort=-duration&row=120&other=1");
  expect(readState(params, ["name", "phase"], sort)).toEqual({
    filters: { name: "fix", phase: "Failed" },
    sortBy: "duration",
    sortOrder: "desc",
    row: 120,
  });
});

test("an invalid row in the URL is row 0", () => {
  expect(readState(new URLSearchParams("row=-3"), [], sort).row).toBe(0);
  expect(readState(new URLSearchParams("row=x"), [], sort)).toMatchObject({
    row: 0,
    sortBy: "createdAt",
    sortOrder: "desc",
  });
});
