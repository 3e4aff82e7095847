import { expect, test } from "vitest";
import type { Registry } from "../../api/types";
import { assembled } from "./assemble";

const git = { repository: "https://example.com/skills", ref: "main", depth: 1, recurseSubmodules: false };

const registry: Registry = {
  name: "team",
  namespace: "default",
  conditions: [],
  images: [
    { name: "go", image: "example/go:1" },
    { name: "node", image: "example/node:1" },
  ],
  skills: [{ name: "review", git, phase: "Ready" }],
  plugins: [{ name: "notify", plugin: { name: "opencode-notify", target: "server" } }],
};

test("the spec contains only the selected assets", () => {
  expect(assembled(registry, { image: ["node"], skills: ["review"], plugins: [] })).toEqual({
    executorImage: "example/node:1",
    skills: [{ name: "review", git }],
    plugins: [],
  });
});

test("a plugin keeps its settings without the catalogue fields", () => {
  expect(assembled(registry, { image: [], skills: [], plugins: ["notify"] }).plugins).toEqual([
    { name: "opencode-notify", target: "server" },
  ]);
});
