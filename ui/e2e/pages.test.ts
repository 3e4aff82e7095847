import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import { describe, expect, test } from "vitest";
import { PAGES } from "./pages";
import { type Session, useBrowser } from "./session";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** What axe finds on the page, one line each. */
async function violations({ page }: Session): Promise<string[]> {
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

async function settle({ page }: Session, heading: string): Promise<void> {
  await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  await page.locator("[aria-label^='Loading']").first().waitFor({ state: "detached" });
  await page.waitForTimeout(150);
}

for (const look of [{}, { dark: true }, { phone: true }]) {
  const name = "dark" in look ? "dark" : "phone" in look ? "phone" : "light";
  describe(`every page, ${name}`, () => {
    const session = useBrowser({ look });
    test.each(PAGES)("%s is there, fits and is accessible", async (address, heading) => {
      await session.go(address);
      await settle(session, heading);
      const overflow = await session.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect(overflow).toBeLessThanOrEqual(0);
      expect(await violations(session)).toEqual([]);
    });
  });
}
