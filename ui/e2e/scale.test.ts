import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Mock, startMock } from "../dev/server";
import { useBrowser } from "./session";

const MANY = 10_000;
const FRAMES = 60;
const SMOOTH_MS = 100;

// On the mock: creating 10,000 Tasks on the product takes longer than all other tests.
describe("10,000 Tasks", () => {
  const session = useBrowser({ signedOut: true });
  let mock: Mock;

  beforeAll(async () => {
    mock = await startMock(0, MANY);
    session.url = mock.url;
  });
  afterAll(() => mock.close());

  test("the list renders only visible rows and scrolls smoothly", async () => {
    const { page, go } = session;
    await go("/tasks");
    await page.locator("[data-row='0'] a").first().waitFor();
    await page.getByText(/^1–\d+ of [\d,]{5,}$/).waitFor();
    expect(await page.locator("[data-row]").count()).toBeLessThan(60);
    const head = page.getByRole("columnheader", { name: "Name", exact: true });
    const place = await head.boundingBox();
    // CPU time per frame, not wall-clock time: the machine may be busy.
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
    const computed = async () => {
      const { metrics } = await devtools.send("Performance.getMetrics");
      return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN) * 1000;
    };
    const before = await computed();
    await page.evaluate(async (frames) => {
      const list = document.querySelector("[aria-label='Tasks, scrollable']");
      for (let i = 0; i < frames; i += 1) {
        list?.scrollBy(0, 900);
        await new Promise(requestAnimationFrame);
      }
    }, FRAMES);
    expect(((await computed()) - before) / FRAMES).toBeLessThan(SMOOTH_MS);
    // The header is sticky.
    expect(await head.boundingBox()).toEqual(place);
    const inSight = (row: number) =>
      page.waitForFunction((wanted) => {
        const frame = document.querySelector("[aria-label='Tasks, scrollable']")?.getBoundingClientRect();
        const link = document.querySelector(`[data-row='${wanted}'] a`)?.getBoundingClientRect();
        return frame && link && link.top >= frame.top && link.bottom <= frame.bottom;
      }, row);
    await page.getByRole("button", { name: "Last rows" }).click();
    await inSight(MANY - 1);
    await page.waitForURL(/row=99\d\d/);
    await page.reload();
    await inSight(MANY - 1);
  });
});
