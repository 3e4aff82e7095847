import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, type BrowserServer, chromium } from "playwright-core";

const PLACES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export const DESKTOP = { width: 1360, height: 860 };
export const PHONE = { width: 360, height: 760 };

/** The installed Chromium, or the binary in `CHROMIUM`. */
function installed() {
  const executablePath = PLACES.find((place) => place !== undefined && existsSync(place));
  if (!executablePath) throw new Error("No Chromium found: install it (apt-get install chromium) or set CHROMIUM");
  return { executablePath, args: ["--no-sandbox", "--disable-gpu"] };
}

/** A browser for this process. */
export function launch(): Promise<Browser> {
  return chromium.launch(installed());
}

/** A browser that several processes share. */
export function serve(): Promise<BrowserServer> {
  return chromium.launchServer(installed());
}

export interface Look {
  dark?: boolean;
  phone?: boolean;
}

export function openContext(browser: Browser, { dark = false, phone = false }: Look = {}): Promise<BrowserContext> {
  return browser.newContext({
    viewport: phone ? PHONE : DESKTOP,
    deviceScaleFactor: phone ? 2 : 1,
    hasTouch: phone,
    isMobile: phone,
    colorScheme: dark ? "dark" : "light",
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
    reducedMotion: "reduce",
  });
}
