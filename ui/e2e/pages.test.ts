import { describe, expect, test } from "vitest";
import { violations } from "./axe";
import { PAGES } from "./pages";
import { type Session, useBrowser } from "./session";

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
      expect(await violations(session.page)).toEqual([]);
    });
  });
}
