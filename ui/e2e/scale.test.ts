import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Mock, startMock } from "../dev/server";
import { useBrowser } from "./session";

const MANY = 10_000;

// On the mock: to make so many Tasks on the product takes longer than all other tests together.
describe("10,000 Tasks", () => {
  const session = useBrowser({ signedOut: true });
  let mock: Mock;

  beforeAll(async () => {
    mock = await startMock(0, MANY);
    session.url = mock.url;
  });
  afterAll(() => mock.close());

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
    const last = page.locator(`[data-row='${MANY - 1}'] a`).first();
    await page.getByRole("button", { name: "Last rows" }).click();
    await last.waitFor();
    await page.waitForURL(/row=\d{4}/);
    await page.reload();
    await last.waitFor();
  });
});
