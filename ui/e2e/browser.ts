import { existsSync } from "node:fs";
import { type Browser, type BrowserContext, chromium } from "playwright-core";

const PLACES = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Debian's Chromium, or whatever `CHROMIUM` names. */
export function launch(): Promise<Browser> {
  const executablePath = PLACES.find((place) => place !== undefined && existsSync(place));
  if (!executablePath) throw new Error("No Chromium found: install it (apt-get install chromium) or set CHROMIUM");
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
}

export interface Look {
  dark?: boolean;
  phone?: boolean;
}

export function openContext(browser: Browser, { dark = false, phone = false }: Look = {}): Promise<BrowserContext> {
  return browser.newContext({
    viewport: phone ? { width: 360, height: 760 } : { width: 1360, height: 860 },
    deviceScaleFactor: phone ? 2 : 1,
    hasTouch: phone,
    isMobile: phone,
    colorScheme: dark ? "dark" : "light",
    locale: "en-GB",
    timezoneId: "Europe/Berlin",
    reducedMotion: "reduce",
  });
}
