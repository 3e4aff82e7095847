import { expect, test } from "vitest";
import { shareOrigin } from "./shareOrigin";

test.each([
  ["http://0123abcd.localhost:2746/agents", "http://127.0.0.1:2746"],
  ["https://agents.example.com/agents", "https://agents.example.com"],
  ["http://localhost:2746/", "http://localhost:2746"],
])("links shared on %s begin with %s", (page, expected) => {
  expect(shareOrigin(new URL(page))).toBe(expected);
});
