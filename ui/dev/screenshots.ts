import { mkdirSync } from "node:fs";
import { launch, openContext } from "../e2e/browser";
import { openTarget } from "../e2e/target";

/** Pages to show: name of the file, address, and what to wait for. */
const PAGES: [string, string, string][] = [
  ["dashboard", "/", ".recharts-surface"],
  ["tasks", "/tasks", "[data-row='3']"],
  ["task", "/tasks/shop/fix-login-timeout", "text=212 tests passed (18.4 s)"],
  ["task-overview", "/tasks/shop/fix-login-timeout?tab=overview", "text=What to do"],
  ["task-waiting", "/tasks/shop/speed-up-search?tab=explain", "text=What you can do"],
  ["task-yaml", "/tasks/shop/speed-up-search?tab=yaml", ".cm-line"],
  ["task-approval", "/tasks/shop/upgrade-postgres-driver", "text=The agent asks"],
  ["task-create", "/tasks/create?agent=web-dev&namespace=shop", ".cm-line"],
  ["crontasks", "/crontasks", "[data-row='0']"],
  ["crontask", "/crontasks/shop/weekday-triage", "text=09:00"],
  ["crontask-create", "/crontasks/create?namespace=shop", ".cm-line"],
  ["agents", "/agents", "[data-row='0']"],
  ["agent", "/agents/shop/web-dev", "text=Connect"],
  ["agent-configuration", "/agents/shop/web-dev?tab=configuration", "text=executorImage"],
  ["agent-terminal", "/agents/shop/web-dev?tab=terminal", "text=Connected"],
  ["agent-share", "/agents/shop/web-dev?tab=share", "text=Make a link"],
  ["agent-create", "/agents/create?namespace=shop", ".cm-line"],
  ["templates", "/templates", "[data-row='0']"],
  ["template", "/templates/shop/node", "text=Agents that build on it"],
  ["registry", "/registries/platform/team-catalogue", "text=review"],
  ["registry-assemble", "/registries/platform/team-catalogue/assemble", ".cm-line"],
  ["config", "/config", ".cm-line"],
  ["models", "/models", "[data-row='0']"],
  ["tools", "/tools", "[data-row='0']"],
  ["kind", "/kinds/models/shop/sonnet", "text=Conditions"],
  ["graph", "/graph", "text=web-dev"],
  ["not-found", "/nowhere", "text=There is no such page"],
];

const LOOKS = [
  { name: "light", dark: false, phone: false },
  { name: "dark", dark: true, phone: false },
  { name: "phone", dark: false, phone: true },
];

const out = process.env.OUT ?? "screenshots";
const only = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const target = await openTarget();
const browser = await launch();
let missed = 0;
try {
  for (const look of LOOKS) {
    const context = await openContext(browser, look);
    const page = await context.newPage();
    page.on("console", (message) => {
      if (message.type() === "error") console.error(`${look.name}: ${message.text()}`);
    });
    page.on("pageerror", (error) => console.error(`${look.name}: ${error.message}`));
    for (const [name, address, sign] of PAGES) {
      if (only.length > 0 && !only.includes(name)) continue;
      await page.goto(`${target.url}${address}`);
      await page
        .locator(sign)
        .first()
        .waitFor({ state: "attached", timeout: 8_000 })
        .catch(() => {
          missed += 1;
          console.error(`${look.name} ${name}: "${sign}" did not appear`);
        });
      await page.waitForTimeout(250);
      await page.screenshot({ path: `${out}/${name}-${look.name}.png` });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await target.close();
}
console.log(`Screenshots are in ${out}${missed > 0 ? `; ${missed} pages did not show what they should` : ""}`);
process.exitCode = missed > 0 ? 1 : 0;
