import { beforeAll, describe, expect, test } from "vitest";
import { contrastViolations, violations } from "./axe";
import { PHONE } from "./browser";
import { AGENT, CRON_TASK, MODEL, NS, ours, REGISTRY, TEMPLATE } from "./seed";
import { useBrowser } from "./session";

const WAITING = "waits-for-nobody";

/** Every page: path and heading. */
const PAGES: [string, string][] = [
  ["/", "Dashboard"],
  ["/tasks", "Tasks"],
  ["/tasks/create", "New Task"],
  [`/tasks/${NS}/write-a-file`, "Write a haiku and show it."],
  [`/tasks/${NS}/on-the-agent`, "Think for a while."],
  [`/tasks/${NS}/on-the-agent?tab=changes`, "Think for a while."],
  [`/tasks/${NS}/write-a-file?tab=changes`, "Write a haiku and show it."],
  [`/tasks/${NS}/write-a-file?tab=artifacts`, "Write a haiku and show it."],
  [`/tasks/${NS}/on-the-agent?tab=overview`, "Think for a while."],
  [`/tasks/${NS}/${WAITING}?tab=explain`, "Wait."],
  [`/tasks/${NS}/${WAITING}?tab=yaml`, "Wait."],
  ["/crontasks", "CronTasks"],
  ["/crontasks/create", "New CronTask"],
  [`/crontasks/${NS}/${CRON_TASK}`, CRON_TASK],
  ["/agents", "Agents"],
  ["/agents/create", "New Agent"],
  [`/agents/${NS}/${AGENT}`, AGENT],
  [`/agents/${NS}/${AGENT}?tab=configuration`, AGENT],
  [`/agents/${NS}/${AGENT}?tab=share`, AGENT],
  [`/agents/${NS}/${AGENT}?tab=yaml`, AGENT],
  ["/templates", "Templates"],
  ["/templates/create", "New AgentTemplate"],
  [`/templates/${NS}/${TEMPLATE}`, TEMPLATE],
  ["/registries", "Registries"],
  ["/registries/create", "New Registry"],
  [`/registries/${NS}/${REGISTRY}`, REGISTRY],
  [`/registries/${NS}/${REGISTRY}/assemble`, `Assemble from ${REGISTRY}`],
  ["/config", "Configuration"],
  ["/models", "Models"],
  ["/providers", "Providers"],
  ["/tools", "Tools"],
  ["/instructions", "Instructions"],
  ["/workflows", "Workflows"],
  ["/kinds/models/create", "New Model"],
  ["/kinds/modelproviders/create", "New ModelProvider"],
  ["/setup", "Set up a model"],
  ["/secrets", "Secrets"],
  ["/secrets/create", "New Secret"],
  [`/kinds/models/${NS}/${MODEL}`, MODEL],
  ["/graph", "Graph"],
  ["/nowhere", "Page not found"],
];

describe("every page", () => {
  const session = useBrowser();

  beforeAll(() =>
    session.cluster.create(ours("Task", WAITING, { agentRef: { name: "nobody" }, description: "Wait." })),
  );

  async function settled(heading: string): Promise<void> {
    const { page } = session;
    await page.getByRole("heading", { level: 1, name: heading }).waitFor();
    await page.locator("[aria-label^='Loading']").first().waitFor({ state: "detached" });
  }
  const overflow = () => session.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);

  /** Waits for colour transitions. */
  const still = () =>
    session.page.evaluate(async () => {
      await new Promise(requestAnimationFrame);
      await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
    });

  // One visit for all appearances: theme and viewport change while the page is open.
  test.each(PAGES)("%s renders, fits and is accessible: light, dark and on a phone", async (address, heading) => {
    const { page, go } = session;
    session.expectedErrors = [404];
    await page.emulateMedia({ colorScheme: "light" });
    await go(address);
    await settled(heading);
    expect(await overflow()).toBeLessThanOrEqual(0);
    expect(await violations(page)).toEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    await still();
    expect(await contrastViolations(page)).toEqual([]);
    await page.setViewportSize(PHONE);
    await settled(heading);
    expect(await overflow()).toBeLessThanOrEqual(0);
    expect(await violations(page)).toEqual([]);
  });
});
