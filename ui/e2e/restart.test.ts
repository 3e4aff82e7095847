import { describe, expect, test } from "vitest";
import { startMock } from "../dev/server";
import { useBrowser } from "./session";

// Stopping the server is only ours to do when it is the mock.
describe.skipIf(process.env.E2E_URL)("a server that goes away", () => {
  const session = useBrowser();

  test("the page says that it reconnects, keeps what it shows, and is live again", async () => {
    const { page, go, target } = session;
    await go("/tasks");
    await page.locator("[data-row='0'] a").first().waitFor();
    await target.close();
    await page.getByText("Reconnecting: what you see may be old").waitFor({ timeout: 15_000 });
    expect(await page.locator("[data-row]").count()).toBeGreaterThan(0);

    const again = await startMock(Number(new URL(target.url).port), 5);
    session.target.close = again.close;
    await page.getByText("Reconnecting: what you see may be old").waitFor({ state: "detached", timeout: 25_000 });
    // The new server knows nothing of our position: everything is asked for again.
    await page.getByText(/of 12$/).waitFor();
  });
});
