import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults, RunOptions } from "axe-core";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

async function run(page: Page, runOnly: RunOptions["runOnly"]): Promise<string[]> {
  // Evaluated over the debugging protocol, which bypasses the content security policy.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(
    (options) => (window as unknown as { axe: { run: (o: object) => Promise<AxeResults> } }).axe.run(options),
    { runOnly, resultTypes: ["violations"] },
  );
  return found.flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 140)} ${node.failureSummary ?? ""}`),
  );
}

/** Accessibility violations of the page, one line each. */
export function violations(page: Page): Promise<string[]> {
  return run(page, { type: "tag", values: RULES });
}

/** Contrast violations only: the other rules do not depend on the theme. */
export function contrastViolations(page: Page): Promise<string[]> {
  return run(page, { type: "rule", values: ["color-contrast"] });
}
