import type { Browser, BrowserContext, Cookie, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { type Look, launch, openContext } from "./browser";
import { openTarget, type Target } from "./target";

export interface Session {
  page: Page;
  context: BrowserContext;
  target: Target;
  /** Opens an address of the page under test. */
  go: (address: string) => Promise<void>;
}

/**
 * A browser and a server for a suite, a fresh page for each test. Against a real server, `E2E_LOGIN` (a link that works
 * once) or `E2E_TOKEN` signs in first.
 * A test fails if the page reported an error that it did not expect: a crash, or a breach of the security policy.
 */
export function useBrowser(options: { look?: Look; tasks?: number; closed?: boolean; strict?: boolean } = {}): Session {
  const session = {} as Session;
  let browser: Browser;
  let errors: string[] = [];
  let cookies: Cookie[] = [];

  beforeAll(async () => {
    session.target = await openTarget(options.tasks, options.closed);
    browser = await launch();
  });
  afterAll(async () => {
    await browser?.close();
    await session.target?.close();
  });
  beforeEach(async () => {
    errors = [];
    session.context = await openContext(browser, options.look);
    session.page = await session.context.newPage();
    session.page.setDefaultTimeout(8_000);
    session.page.on("pageerror", (error) => errors.push(error.message));
    session.page.on("console", (message) => {
      // Refusals of the API that a test provokes are not faults of the page; a strict suite provokes none.
      if (message.type() === "error" && (options.strict || !message.text().startsWith("Failed to load resource")))
        errors.push(`${message.text()} ${message.location().url}`);
    });
    session.go = async (address) => {
      await session.page.goto(`${session.target.url}${address}`);
    };
    const { E2E_LOGIN: link, E2E_TOKEN: token } = process.env;
    if (link) {
      if (cookies.length === 0) await session.context.request.get(link);
      else await session.context.addCookies(cookies);
      cookies = await session.context.cookies();
    }
    if (token && !options.closed) {
      const answer = await session.context.request.post(`${session.target.url}/api/v1/login`, { data: { token } });
      if (!answer.ok()) throw new Error(`Login was refused: ${answer.status()}`);
    }
  });
  afterEach(async () => {
    await session.context?.close();
    expect(errors).toEqual([]);
  });
  return session;
}
