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

// One connection a process, and one signed-in page: to open another costs more than most tests. Both end with the process.
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

/** A name that no other test uses. */
export function freshName(prefix: string): string {
  return `${prefix}-${randomBytes(4).toString("hex")}`;
}

/** Goes to an address without loading the page anew, as a link of the page does. */
async function follow(page: Page, address: string): Promise<void> {
  await page.evaluate((to) => {
    history.pushState(null, "", to);
    dispatchEvent(new PopStateEvent("popstate"));
  }, address);
}

/** Leaves whatever is shown: nothing of it can be taken for what comes next, and nothing of it asks the server any more. */
async function leave(page: Page): Promise<void> {
  await follow(page, "/nothing-is-here");
  await page.getByRole("heading", { level: 1, name: "Not found" }).waitFor();
}

/**
 * A page for the tests of a file: of the owner of the machine, who stays signed in from file to file, or of somebody who
 * is not signed in. A test fails if the page reported an error that it did not expect: a crash, a breach of the security
 * policy, a refused request.
 */
export function useBrowser({ signedOut = false } = {}): Session {
  const session = {} as Session;
  const errors: string[] = [];

  const isExpected = (message: string) => {
    if (!message.startsWith("Failed to load resource: ")) return false;
    const code = /the server responded with a status of (\d+)/.exec(message)?.[1] ?? "0";
    return session.refusals.includes(Number(code));
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
      }
    };
    session.toast = (text) => session.page.getByRole("status").filter({ hasText: text }).first().waitFor();
  });
  afterAll(async () => {
    if (signedOut) await session.context?.close();
  });

  beforeEach(async () => {
    errors.length = 0;
    session.refusals = [];
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
      console.error(`What was seen: ui/${path}`);
    }
    // What a person chose (theme, namespace) is remembered; the next test is another person.
    await page.evaluate(() => localStorage.clear()).catch(() => {});
    if (failed) await page.close();
    else if (!signedOut) await leave(page);
    page.off("pageerror", note.pageerror);
    page.off("console", note.console);
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
