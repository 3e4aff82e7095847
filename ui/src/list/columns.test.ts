import { expect, test } from "vitest";
import { leastWidth } from "./columns";

test("the minimum width of a table is the sum of its column minimums", () => {
  expect(leastWidth(["minmax(170px, 2fr)", "72px"])).toBe(170 + 72 + 12 + 32);
});
