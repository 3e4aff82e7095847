import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    include: ["e2e/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // One browser at a time: the suites share a server that they change.
    fileParallelism: false,
  },
});
