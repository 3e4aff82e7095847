import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type BrowserServer, type Cookie, chromium } from "playwright-core";
import type { TestProject } from "vitest/node";
import { openContext, serve } from "./browser";
import { Cluster } from "./cluster";
import { START_MS } from "./limits";
import { seed } from "./seed";

/** The product under test. */
export interface Platform {
  binary: string;
  /** A temporary directory. */
  directory: string;
  url: string;
  /** The one-time login link of the owner; already used. */
  loginLink: string;
  /** The session of the owner. */
  owner: Cookie[];
  kubeconfig: string;
  /** WebSocket address of the shared browser. */
  browser: string;
}

declare module "vitest" {
  interface ProvidedContext {
    platform: Platform;
  }
}

/** Time for the product to stop, Pods included. */
const STOP_MS = 30_000;

/** Resolves with the exit code; a signal counts as 1. */
export function ended(child: ChildProcess): Promise<number> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode ?? 1);
  return new Promise((done) => {
    child.once("error", (error) => {
      console.error(error.message);
      done(1);
    });
    child.once("exit", (code) => done(code ?? 1));
  });
}

/** Starts `kubeopencode up` with objects in memory and ports that are free. */
export function startUp(binary: string, state: string, options: string[] = []): ChildProcess {
  return spawn(
    binary,
    ["up", "--in-memory", "--port", "0", "--api-port", "0", "--state-dir", state, ...options],
    // Its own process group: Ctrl-C reaches only the tests, which then stop the product.
    { stdio: ["ignore", "pipe", "inherit"], detached: true },
  );
}

/** Stops a started product and returns its exit code. */
export async function stopUp(child: ChildProcess): Promise<number> {
  child.kill("SIGINT");
  const late = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  const code = await ended(child);
  clearTimeout(late);
  return code;
}

/** Waits until `kubeopencode up` has printed the login link and the kubeconfig. */
export function greeting(child: ChildProcess): Promise<Pick<Platform, "loginLink" | "kubeconfig">> {
  return new Promise((found, failed) => {
    const late = setTimeout(() => failed(new Error("The platform did not start in time")), START_MS);
    let loginLink: string | undefined;
    let kubeconfig: string | undefined;
    if (!child.stdout) return failed(new Error("The platform has no output"));
    createInterface(child.stdout).on("line", (line) => {
      loginLink ??= /^ {2}Page +(\S+)/.exec(line)?.[1];
      kubeconfig ??= /export KUBECONFIG=(\S+)/.exec(line)?.[1];
      if (!loginLink || !kubeconfig) return;
      clearTimeout(late);
      found({ loginLink, kubeconfig });
    });
    void ended(child).then((code) => {
      clearTimeout(late);
      failed(new Error(`The platform ended with code ${code}`));
    });
  });
}

/** Opens the login link of the owner once for all tests, because it is valid once. */
async function signIn(browserAddress: string, loginLink: string): Promise<Cookie[]> {
  const browser = await chromium.connect(browserAddress);
  const context = await openContext(browser);
  const page = await context.newPage();
  await page.goto(loginLink);
  await page.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor({ timeout: START_MS });
  const cookies = await context.cookies();
  await browser.close();
  return cookies;
}

/** Starts the product with its demo and a browser for all tests, and stops both after them. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const binary = process.env.KUBEOPENCODE;
  if (!binary) throw new Error("Run this by `npm run e2e:product -- <path to the binary>`");
  const directory = mkdtempSync(join(tmpdir(), "kubeopencode-e2e-"));
  const child = startUp(binary, join(directory, "state"), ["--demo"]);
  let browser: BrowserServer | undefined;
  const stop = async () => {
    await browser?.close();
    const early = child.exitCode !== null || child.signalCode !== null;
    const code = await stopUp(child);
    rmSync(directory, { recursive: true, force: true });
    if (early || code !== 0) throw new Error(`The platform did not stop as it should: it ended with code ${code}`);
  };
  try {
    const starting = greeting(child);
    browser = await serve();
    const { loginLink, kubeconfig } = await starting;
    const [owner] = await Promise.all([signIn(browser.wsEndpoint(), loginLink), seed(new Cluster(kubeconfig))]);
    project.provide("platform", {
      binary,
      directory,
      url: new URL(loginLink).origin,
      loginLink,
      owner,
      kubeconfig,
      browser: browser.wsEndpoint(),
    });
    return stop;
  } catch (error) {
    await stop().catch(() => {});
    throw error;
  }
}
