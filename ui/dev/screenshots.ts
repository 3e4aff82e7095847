import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { launch, openContext } from "../e2e/browser";
import { startMock } from "./server";

/** Pages: file name, path, and a selector to wait for. */
const PAGES: [string, string, string][] = [
  ["dashboard", "/", ".recharts-surface"],
  ["tasks", "/tasks", "[data-row='3']"],
  ["task", "/tasks/shop/fix-login-timeout", "text=212 tests passed (18.4 s)"],
  ["task-changes", "/tasks/shop/fix-login-timeout-0240?tab=changes", "text=Download patch"],
  [
    "task-artifacts",
    "/tasks/shop/fix-login-timeout-0240?tab=artifacts&artifact=report&file=REPORT.md",
    "text=no fixed sleep",
  ],
  ["task-overview", "/tasks/shop/fix-login-timeout?tab=overview", "text=Description"],
  ["task-waiting", "/tasks/shop/speed-up-search?tab=explain", "text=Suggested actions"],
  ["task-yaml", "/tasks/shop/speed-up-search?tab=yaml", ".cm-line"],
  ["task-approval", "/tasks/shop/upgrade-postgres-driver", "text=Permission request"],
  ["task-create", "/tasks/create?agent=web-dev&namespace=shop", ".cm-line"],
  ["crontasks", "/crontasks", "[data-row='0']"],
  ["crontask", "/crontasks/shop/weekday-triage", "text=09:00"],
  ["crontask-blocked", "/crontasks/shop/hourly-checks", "text=Blocked: no runs start"],
  ["crontask-create", "/crontasks/create?namespace=shop", ".cm-line"],
  ["agents", "/agents", "[data-row='0']"],
  ["agent", "/agents/shop/web-dev", "text=Connect"],
  ["agent-configuration", "/agents/shop/web-dev?tab=configuration", "text=executorImage"],
  ["agent-terminal", "/agents/shop/web-dev?tab=terminal", "text=Connected"],
  ["agent-share", "/agents/shop/web-dev?tab=share", "text=Create link"],
  ["agent-create", "/agents/create?namespace=shop", ".cm-line"],
  ["templates", "/templates", "[data-row='0']"],
  ["template", "/templates/shop/node", "text=Agents using this template"],
  ["registry", "/registries/platform/team-catalogue", "text=review"],
  ["registry-assemble", "/registries/platform/team-catalogue/assemble", ".cm-line"],
  ["config", "/config", ".cm-line"],
  ["models", "/models", "[data-row='0']"],
  ["tools", "/tools", "[data-row='0']"],
  ["kind", "/kinds/models/shop/sonnet", "text=Conditions"],
  ["graph", "/graph", "text=web-dev"],
  ["setup", "/setup", "text=Who serves your model?"],
  ["secrets", "/secrets?namespace=shop", "text=anthropic-key"],
  ["secret", "/secrets/shop/github", "text=webhook-secret"],
  ["secret-create", "/secrets/create?namespace=shop", "text=Never shown again."],
  ["provider-create", "/kinds/modelproviders/create?namespace=shop", ".cm-line"],
  ["not-found", "/nowhere", "text=No page at this address"],
];

interface Look {
  name: string;
  dark: boolean;
  phone: boolean;
}

const LIGHT: Look = { name: "light", dark: false, phone: false };
const DARK: Look = { name: "dark", dark: true, phone: false };
const PHONE: Look = { name: "phone", dark: false, phone: true };

/** Screenshots of the README: file name, page, appearance. */
const README: [string, string, Look][] = [
  ["dashboard", "dashboard", LIGHT],
  ["task", "task", LIGHT],
  ["explain", "task-waiting", DARK],
];
const README_DIRECTORY = fileURLToPath(new URL("../../docs/images", import.meta.url));
const MAX_KB = 120;

const HELP = `Usage: npm run screenshots -- [--readme] [page…]

Pictures of the page in real Chromium: of the server at E2E_URL, or of the mock.

  (nothing)   every page in light, dark and on a phone, as PNG in screenshots/ (or where OUT names)
  page…       only these pages: ${PAGES.map(([name]) => name).join(", ")}
  --readme    ${README.map(([file, page, look]) => `${file}.webp (${page}, ${look.name})`).join(", ")}
              in docs/images, 1360 pixels wide, at most ${MAX_KB} kB each
  --help      this text`;

/** Opens a page and returns whether the expected element appeared. */
async function show(page: Page, url: string, name: string): Promise<boolean> {
  const [, address, sign] = PAGES.find(([known]) => known === name) ?? [name, `/${name}`, "h1"];
  await page.goto(`${url}${address}`);
  const shown = await page
    .locator(sign)
    .first()
    .waitFor({ state: "attached", timeout: 8_000 })
    .then(
      () => true,
      () => false,
    );
  if (!shown) console.error(`${name}: "${sign}" did not appear`);
  await page.waitForTimeout(250);
  return shown;
}

/** Playwright does not support WebP, Chromium does. */
async function webp(page: Page): Promise<Buffer> {
  const devtools = await page.context().newCDPSession(page);
  const { data } = await devtools.send("Page.captureScreenshot", { format: "webp", quality: 85 });
  return Buffer.from(data, "base64");
}

const args = process.argv.slice(2);
const unknown = args.filter((arg) => !["--readme", "--help"].includes(arg) && !PAGES.some(([name]) => name === arg));
if (args.includes("--help") || unknown.length > 0) {
  console.log(HELP);
  process.exit(unknown.length > 0 ? 2 : 0);
}
const readme = args.includes("--readme");
const names = args.filter((arg) => arg !== "--readme");
const wanted = PAGES.map(([name]) => name).filter((name) => names.length === 0 || names.includes(name));
const shots = readme
  ? README
  : [LIGHT, DARK, PHONE].flatMap((look) =>
      wanted.map((name): [string, string, Look] => [`${name}-${look.name}`, name, look]),
    );
const out = readme ? README_DIRECTORY : (process.env.OUT ?? "screenshots");

mkdirSync(out, { recursive: true });
const given = process.env.E2E_URL;
const target = given ? { url: given.replace(/\/$/, ""), close: async () => {} } : await startMock(0, 240);
const browser = await launch();
let missed = 0;
try {
  for (const look of [LIGHT, DARK, PHONE]) {
    const context = await openContext(browser, look);
    const page = await context.newPage();
    page.on("console", (message) => {
      if (message.type() === "error") console.error(`${look.name}: ${message.text()}`);
    });
    page.on("pageerror", (error) => console.error(`${look.name}: ${error.message}`));
    for (const [file, name] of shots.filter(([, , other]) => other === look)) {
      if (!(await show(page, target.url, name))) missed += 1;
      if (!readme) {
        await page.screenshot({ path: `${out}/${file}.png` });
        continue;
      }
      const picture = await webp(page);
      const kilobytes = picture.length / 1000;
      console.log(`${file}.webp: ${kilobytes.toFixed(0)} kB`);
      if (kilobytes > MAX_KB) missed += 1;
      writeFileSync(`${out}/${file}.webp`, picture);
    }
    await context.close();
  }
} finally {
  await browser.close();
  await target.close();
}
console.log(`Screenshots are in ${out}${missed > 0 ? `; ${missed} are not what they should be` : ""}`);
process.exitCode = missed > 0 ? 1 : 0;
