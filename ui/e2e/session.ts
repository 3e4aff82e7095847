import type { Browser, BrowserContext, Cookie, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from "vitest";
import { launch, openContext } from "./browser";
import { Cluster } from "./cluster";

export interface Session {
  page: Page;
  context: BrowserContext;
  cluster: Cluster;
  url: string;
  /** Codes of refusals that this test provokes, 0 for a server that is gone; any other is a fault of the page. */
  refusals: number[];
  /** Opens an address of the page under test. */
  go: (address: string) => Promise<void>;
  /** Waits for a message of success or failure. */
  toast: (text: string | RegExp) => Promise<void>;
}

/** How long work of a real agent may take on a busy machine. */
export const WORK = { timeout: 120_000 };
const USUAL_MS = 15_000;

// One browser for all files, which run one after the other in the same process; it ends with the process.
let browser: Promise<Browser> | undefined;
const theBrowser = () => {
  browser ??= launch();
  return browser;
};

let owner: Promise<Cookie[]> | undefined;

/** The session of the machine's owner. The link works once, so whoever is first uses it for all. */
export function ownerCookies(): Promise<Cookie[]> {
  owner ??= (async () => {
    const context = await openContext(await theBrowser());
    const page = await context.newPage();
    await page.goto(inject("platform").loginLink);
    await page.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor({ timeout: 30_000 });
    const cookies = await context.cookies();
    await context.close();
    return cookies;
  })();
  return owner;
}

/** A name that no other test uses. */
export function freshName(prefix: string): string {
  return `${prefix}-${Date.now().toString(36)}`;
}

/**
 * A signed-in browser for a file, a fresh page for each of its tests. A test fails if the page reported an error that it
 * did not expect: a crash, a breach of the security policy, a refused request.
 */
export function useBrowser(options: { signedOut?: boolean } = {}): Session {
  const session = {} as Session;
  const errors: string[] = [];

  const isExpected = (message: string) => {
    if (!message.startsWith("Failed to load resource: ")) return false;
    const code = /the server responded with a status of (\d+)/.exec(message)?.[1] ?? "0";
    return session.refusals.includes(Number(code));
  };

  beforeAll(async () => {
    const { url, kubeconfig } = inject("platform");
    session.url = url;
    session.cluster = new Cluster(kubeconfig);
    session.context = await openContext(await theBrowser());
    if (!options.signedOut) await session.context.addCookies(await ownerCookies());
    session.go = async (address) => {
      await session.page.goto(`${session.url}${address}`);
    };
    session.toast = (text) => session.page.getByRole("status").filter({ hasText: text }).first().waitFor();
  });
  afterAll(() => session.context?.close());
  beforeEach(async () => {
    errors.length = 0;
    session.refusals = [];
    session.page = await session.context.newPage();
    session.page.setDefaultTimeout(USUAL_MS);
    session.page.on("pageerror", (error) => errors.push(error.message));
    session.page.on("console", (message) => {
      if (message.type() === "error" && !isExpected(message.text()))
        errors.push(`${message.text()} ${message.location().url}`);
    });
  });
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") {
      const path = `screenshots/failed/${task.name.replace(/[^a-z0-9]+/gi, "-")}.png`;
      await session.page.screenshot({ path });
      console.error(`What was seen: ui/${path}`);
    }
    // What a person chose (theme, namespace) is remembered; the next test is another person.
    await session.page.evaluate(() => localStorage.clear()).catch(() => {});
    await session.page.close();
    expect(errors).toEqual([]);
  });
  return session;
}

/** Writes one line into the YAML editor, in place of the whole text. */
export async function writeYaml(page: Page, label: string | RegExp, line: string): Promise<void> {
  await page.getByLabel(label).click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(line);
}

/** Chooses Delete, reads what goes, confirms. */
export async function deleteShown({ page, refusals }: Session, kind: string, consequence: RegExp): Promise<void> {
  // The feed may tell of the end before the page has left: it looks once more.
  refusals.push(404);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(consequence).waitFor();
  await dialog.getByRole("button", { name: `Delete ${kind}` }).click();
  await dialog.waitFor({ state: "detached" });
}
