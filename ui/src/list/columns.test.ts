import { expect, test } from "vitest";
import { leastWidth } from "./columns";

test("a table is at least as wide as its columns at their smallest", () => {
  expect(leastWidth(["minmax(170px, 2fr)", "72px"])).toBe(170 + 72 + 12 + 32);
});
