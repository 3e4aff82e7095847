import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** What axe finds on the page, one line each. */
export async function violations(page: Page): Promise<string[]> {
  // Evaluated over the debugging protocol, so the page's own policy does not stand in the way.
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(
    (tags) => (window as unknown as { axe: { run: (o: object) => Promise<AxeResults> } }).axe.run({ runOnly: tags }),
    RULES,
  );
  return found.flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 140)} ${node.failureSummary ?? ""}`),
  );
}
