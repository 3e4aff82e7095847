import { describe, expect, test } from "vitest";
import { useBrowser } from "./session";

const TASKS = Number(process.env.E2E_MANY ?? 10_000);

// A real server has that many Tasks only when the one who runs this says so.
describe.skipIf(process.env.E2E_URL && !process.env.E2E_MANY)("10,000 Tasks", () => {
  const session = useBrowser({ tasks: TASKS });

  test("the list has them all, draws only what is visible, and scrolls smoothly", async () => {
    const { page, go } = session;
    await go("/tasks");
    await page.locator("[data-row='0'] a").first().waitFor();
    await page.getByText(/^1–\d+ of [\d,]{5,}$/).waitFor();
    expect(await page.locator("[data-row]").count()).toBeLessThan(60);
    // The median: a single frame may be late because the machine was busy with something else.
    const median = await page.evaluate(async () => {
      const list = document.querySelector("[aria-label='Tasks, scrollable']");
      const frames: number[] = [];
      let last = performance.now();
      for (let i = 0; i < 60; i += 1) {
        list?.scrollBy(0, 900);
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        frames.push(now - last);
        last = now;
      }
      return frames.sort((x, y) => x - y)[30] ?? 0;
    });
    expect(median).toBeLessThan(100);
    await page.getByRole("button", { name: "Last rows" }).click();
    await page
      .locator(`[data-row='${TASKS - 1}'] a`)
      .first()
      .waitFor();
    await page.waitForURL(/row=\d{4}/);
    await page.reload();
    await page
      .locator(`[data-row='${TASKS - 1}'] a`)
      .first()
      .waitFor();
  });
});
