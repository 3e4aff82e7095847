import { randomBytes } from "node:crypto";
import { type Browser, type BrowserContext, type ConsoleMessage, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject } from "vitest";
import { DESKTOP, openContext } from "./browser";
import { Cluster } from "./cluster";

export interface Session {
  page: Page;
  context: BrowserContext;
  cluster: Cluster;
  url: string;
  /** Status codes that this test provokes, 0 for an unreachable server; any other error fails the test. */
  expectedErrors: number[];
  /** Opens a path of the page. */
  go: (address: string) => Promise<void>;
  /** Waits for a toast. */
  toast: (text: string | RegExp) => Promise<void>;
}

/** Timeout for the work of a real agent on a busy machine. */
export const WORK = { timeout: 120_000 };
const USUAL_MS = 15_000;

// One connection and one signed-in page per process: opening another page takes longer than most tests.
let connection: Promise<Browser> | undefined;
let owner: { context: BrowserContext; page: Page | undefined } | undefined;

function theBrowser(): Promise<Browser> {
  connection ??= chromium.connect(inject("platform").browser);
  return connection;
}

async function ownerContext(): Promise<BrowserContext> {
  if (!owner) {
    owner = { context: await openContext(await theBrowser()), page: undefined };
    await owner.context.addCookies(inject("platform").owner);
  }
  return owner.context;
}

/** A unique name. */
export function freshName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString("hex")}`;
}

/** Navigates without a reload, as a link does. */
async function follow(page: Page, address: string): Promise<void> {
  await page.evaluate((to) => {
    history.pushState(null, "", to);
    dispatchEvent(new PopStateEvent("popstate"));
  }, address);
}

const NOWHERE = "/nothing-is-here";

/** Leaves the current page, so that its content is not mistaken for the next page and its requests end. */
async function leave(page: Page): Promise<void> {
  await follow(page, NOWHERE);
  await page.getByText(NOWHERE).waitFor();
}

/**
 * A page for the tests of a file: signed in as the owner, or signed out. A test fails if the page reports an unexpected
 * error: a crash, a violation of the content security policy, a failed request.
 */
export function useBrowser({ signedOut = false } = {}): Session {
  const session = {} as Session;
  const errors: string[] = [];

  const isExpected = (message: string) => {
    if (!message.startsWith("Failed to load resource: ")) return false;
    const code = /the server responded with a status of (\d+)/.exec(message)?.[1] ?? "0";
    return session.expectedErrors.includes(Number(code));
  };
  const note = {
    pageerror: (error: Error) => errors.push(error.message),
    console: (message: ConsoleMessage) => {
      if (message.type() === "error" && !isExpected(message.text()))
        errors.push(`${message.text()} ${message.location().url}`);
    },
  };

  beforeAll(async () => {
    const { url, kubeconfig } = inject("platform");
    session.url = url;
    session.cluster = new Cluster(kubeconfig);
    session.context = signedOut ? await openContext(await theBrowser()) : await ownerContext();
    session.go = async (address) => {
      if (signedOut || session.page.url() === "about:blank") {
        await session.page.goto(`${session.url}${address}`);
      } else {
        await leave(session.page);
        await follow(session.page, address);
        // Until the code of the next page is loaded, the page stays.
        await session.page.getByText(NOWHERE).waitFor({ state: "detached" });
      }
    };
    session.toast = (text) => session.page.getByRole("status").filter({ hasText: text }).first().waitFor();
  });
  afterAll(async () => {
    if (signedOut) await session.context?.close();
  });

  beforeEach(async () => {
    errors.length = 0;
    session.expectedErrors = [];
    const open = signedOut ? session.page : owner?.page;
    session.page = open && !open.isClosed() ? open : await session.context.newPage();
    if (owner && !signedOut) owner.page = session.page;
    session.page.setDefaultTimeout(USUAL_MS);
    await session.page.setViewportSize(DESKTOP);
    session.page.on("pageerror", note.pageerror);
    session.page.on("console", note.console);
  });
  afterEach(async ({ task }) => {
    const { page } = session;
    const failed = task.result?.state === "fail";
    if (failed) {
      const path = `screenshots/failed/${task.name.replace(/[^a-z0-9]+/gi, "-")}.png`;
      await page.screenshot({ path });
      console.error(`Screenshot: ui/${path} of ${page.url()}\n${await page.locator("body").ariaSnapshot()}`);
    }
    // Theme and namespace are stored; the next test starts without them.
    await page.evaluate(() => localStorage.clear()).catch(() => {});
    if (failed) await page.close();
    else if (!signedOut) await leave(page);
    page.off("pageerror", note.pageerror);
    page.off("console", note.console);
    expect(errors).toEqual([]);
  });
  return session;
}

/** Replaces the text of the YAML editor by one line. */
export async function writeYaml(page: Page, label: string | RegExp, line: string): Promise<void> {
  await page.getByLabel(label).click();
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(line);
}

/** Deletes the shown object and checks the listed consequences. */
export async function deleteShown({ page, expectedErrors }: Session, kind: string, consequence: RegExp): Promise<void> {
  // The event stream may report the deletion before the page has navigated: the page then fetches the object again.
  expectedErrors.push(404);
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(consequence).waitFor();
  await dialog.getByRole("button", { name: `Delete ${kind}` }).click();
  await dialog.waitFor({ state: "detached" });
}
