import { expect, test } from "vitest";
import type { GraphEdge } from "../api/types";
import { relatedTo } from "./related";

const edge = (from: string, to: string): GraphEdge => ({ from, to, label: "uses" });

test("ancestors and descendants are related, siblings are not", () => {
  const edges = [edge("s", "m"), edge("m", "a"), edge("m", "b"), edge("a", "t")];
  expect([...relatedTo("a", edges)].sort()).toEqual(["a", "m", "s", "t"]);
});

test("a cycle ends", () => {
  expect([...relatedTo("a", [edge("a", "b"), edge("b", "a")])].sort()).toEqual(["a", "b"]);
});
