import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { violations } from "./axe";
import { Cluster } from "./cluster";
import { START_MS } from "./limits";
import { RealModel } from "./model";
import { greeting, startUp, stopUp } from "./platform";
import { ours } from "./seed";
import { useBrowser, WORK } from "./session";

const KEY = "sk-e2e-0123456789";

/** A short prompt and no title. OpenCode's own prompt has thousands of tokens, which take two busy cores a minute. */
const SHORT = { agent: { build: { prompt: "Answer in one short sentence." }, title: { disable: true } } };

describe("the first login on an empty platform", () => {
  const session = useBrowser({ signedOut: true });
  let product: ChildProcess;
  let model: RealModel;
  let cluster: Cluster;
  let loginLink: string;

  beforeAll(async () => {
    const { binary, directory } = inject("platform");
    product = startUp(binary, join(directory, "empty"));
    const [started, running] = await Promise.all([greeting(product), RealModel.start(KEY)]);
    loginLink = started.loginLink;
    cluster = new Cluster(started.kubeconfig);
    model = running;
    session.url = new URL(loginLink).origin;
  });
  afterAll(async () => {
    await Promise.all([model?.stop(), product && stopUp(product)]);
  });

  test("leads through the setup of a real model to a finished Task", { timeout: 3 * START_MS }, async () => {
    const { page } = session;
    // A Task has no session before it runs.
    session.expectedErrors = [404];
    await page.goto(loginLink);
    await page.getByRole("heading", { name: "Set up your first model" }).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole("link", { name: "Set up a model" }).click();

    await page.getByRole("radio", { name: /OpenAI-compatible/ }).check();
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: "Continue with OpenAI-compatible" }).click();

    await page.getByLabel("Base URL").fill(model.url);
    await page.getByLabel("API key").fill("sk-wrong-key");
    await page.getByRole("button", { name: "Test connection" }).click();
    await page
      .getByRole("alert")
      .filter({ hasText: /does not accept the key \(status 401\)/ })
      .waitFor();

    await page.getByLabel("API key").fill(KEY);
    await page.getByRole("button", { name: "Test connection" }).click();
    await page.getByText("Connected: 1 model.").waitFor();
    expect(await page.getByLabel("Model", { exact: true }).inputValue()).toBe("smollm2");
    expect(await violations(page)).toEqual([]);
    // The model answers with a token before anything is saved.
    await page.getByRole("button", { name: "Save and continue" }).click();
    await page.getByText("The model is ready. Saved in namespace default:").waitFor(WORK);
    expect(await page.content()).not.toContain(KEY);
    expect(await violations(page)).toEqual([]);

    const template = ours("AgentTemplate", "openai-compatible", {}, "default");
    await cluster.patch(template, { spec: { config: SHORT } });
    await page.getByRole("button", { name: "Run Task" }).click();
    await page.getByRole("heading", { level: 1, name: / task-/ }).waitFor();
    await page.getByText("Completed", { exact: true }).first().waitFor(WORK);

    const tasks = "/apis/kubeopencode.io/v1alpha1/namespaces/default/tasks";
    const { items } = await cluster.call<{ items: { status: { usage?: { tokens?: { output?: number } } } }[] }>(
      "GET",
      tasks,
    );
    expect(items.map((task) => (task.status.usage?.tokens?.output ?? 0) > 0)).toEqual([true]);

    // With a provider, nothing is offered any more.
    await page.goto(`${session.url}/`);
    await page.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor();
    expect(await page.getByRole("heading", { name: "Set up your first model" }).count()).toBe(0);
  });
});
