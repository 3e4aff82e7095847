import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { START_MS } from "./limits";

/** Tests that do not need the demo run first, while the demo starts. Then long files before short ones. */
const ORDER = [
  "login",
  "kinds",
  "onboarding",
  "tasks",
  "agents",
  "pages",
  "crontasks",
  "oidc",
  "lists",
  "restart",
  "scale",
];
const place = (file: TestSpecification) => ORDER.findIndex((name) => file.moduleId.endsWith(`/${name}.test.ts`));

class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const unplaced = files.find((file) => place(file) < 0);
    if (unplaced) throw new Error(`${unplaced.moduleId} has no place in ORDER of e2e/vitest.config.ts`);
    return files.sort((a, b) => place(a) - place(b));
  }
}

export default defineConfig({
  test: {
    environment: "node",
    include: ["e2e/**/*.test.ts"],
    globalSetup: "e2e/platform.ts",
    testTimeout: 60_000,
    // A hook may start a server.
    hookTimeout: 2 * START_MS,
    // One platform and one browser; two files in parallel, because tests mostly wait for the product.
    maxWorkers: 2,
    isolate: false,
    sequence: { sequencer: InOrder },
  },
});
