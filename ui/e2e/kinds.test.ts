import { describe, expect, test } from "vitest";
import { violations } from "./axe";
import { NS, REGISTRY } from "./seed";
import { deleteShown, freshName, useBrowser, writeYaml } from "./session";

/** Kinds created from YAML: path, display name, and an invalid spec. */
const YAML_KINDS: [string, string, string][] = [["agentworkflows", "AgentWorkflow", "{steps: no}"]];

/** Kinds with a form: path, display name, an invalid spec, and the fields to fill. */
const FORM_KINDS: [string, string, string, Record<string, string>][] = [
  ["models", "Model", "{model: 7}", { Provider: "local", Model: "small-2", "Context window": "32000" }],
  ["modelproviders", "ModelProvider", "{type: no-such-type}", { Type: "ollama", "Base URL": "http://127.0.0.1:9" }],
  ["instructions", "Instruction", "{text: 7}", { Text: "Write tests first." }],
  ["remotemcpservers", "RemoteMCPServer", "{url: 7}", { URL: "http://127.0.0.1:9/mcp", Protocol: "SSE" }],
  ["mcpservers", "MCPServer", "{transport: pigeon}", { Transport: "stdio", Image: "box:1", Command: "serve" }],
  [
    "agenttools",
    "AgentTool",
    "{description: 7}",
    { URL: "http://127.0.0.1:9", "Path of the OpenAPI document": "/openapi.json" },
  ],
];

describe("every kind", () => {
  const session = useBrowser();
  const h1 = (name: string) => session.page.getByRole("heading", { level: 1, name }).waitFor();
  const nameField = () => session.page.getByRole("textbox", { name: /^Name/ }).first();

  test.each(YAML_KINDS)("%s: rejected with a reason, validated, created, deleted", async (plural, kind, invalid) => {
    const { page, go } = session;
    session.expectedErrors = [422];
    const editor = `YAML of the new ${kind}`;
    await go(`/kinds/${plural}/create?namespace=${NS}`);
    const start = `my-${kind.toLowerCase()}`;
    await page.getByLabel(editor).getByText(start).first().waitFor();
    await page.getByRole("button", { name: "Validate" }).click();
    await page.getByText("Valid: the server would accept it.").waitFor();
    await page.getByRole("button", { name: `Create ${kind}` }).click();
    await h1(start);
    await deleteShown(session, kind, /objects that refer to it wait/);
    await page.getByRole("heading", { level: 1 }).filter({ hasNotText: start }).waitFor();

    await go(`/kinds/${plural}/create?namespace=${NS}`);
    const head = `apiVersion: kubeopencode.io/v1alpha1, kind: ${kind}, metadata: {name: bad, namespace: ${NS}}`;
    await page.getByLabel(editor).getByText(start).first().waitFor();
    await writeYaml(page, editor, `{${head}, spec: ${invalid}}`);
    await page.getByRole("button", { name: `Create ${kind}` }).click();
    await page.getByRole("alert").filter({ hasText: /spec/ }).waitFor();
  });

  test.each(FORM_KINDS)(
    "%s: the form names what is missing, creates and deletes",
    async (plural, kind, invalid, fields) => {
      const { page, go } = session;
      session.expectedErrors = [422];
      const name = freshName(kind.toLowerCase());
      await go(`/kinds/${plural}/create?namespace=${NS}`);
      await page.getByRole("button", { name: `Create ${kind}` }).click();
      await page.getByText("Name is required.").waitFor();
      expect(await violations(page)).toEqual([]);
      await nameField().fill(name);
      for (const [label, value] of Object.entries(fields)) {
        const field = page.getByLabel(new RegExp(`^${label}( ?optional)?$`));
        if ((await field.evaluate((element) => element.tagName)) === "SELECT") await field.selectOption(value);
        else await field.fill(value);
      }
      await page.getByRole("button", { name: "Validate" }).click();
      await page.getByText("Valid: the server would accept it.").waitFor();
      await page.getByRole("button", { name: `Create ${kind}` }).click();
      await h1(name);
      await deleteShown(session, kind, /objects that refer to it wait/);
      await page.getByRole("heading", { level: 1 }).filter({ hasNotText: name }).waitFor();

      await go(`/kinds/${plural}/create?namespace=${NS}`);
      const head = `apiVersion: kubeopencode.io/v1alpha1, kind: ${kind}, metadata: {name: bad, namespace: ${NS}}`;
      await writeYaml(page, `YAML of the new ${kind}`, `{${head}, spec: ${invalid}}`);
      await page.getByRole("button", { name: `Create ${kind}` }).click();
      await page.getByRole("alert").first().waitFor();
    },
  );

  test("a Secret is created, used in a template, changed and deleted, and its values are never shown", async () => {
    const { page, go, cluster } = session;
    session.expectedErrors = [404];
    const [name, value] = [freshName("token"), `value-${freshName("of")}`];
    await go(`/secrets/create?namespace=${NS}`);
    await nameField().fill(name);
    await page.getByRole("button", { name: "Create Secret" }).click();
    await page.getByText("Value is required.").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByLabel("Value", { exact: true }).fill(value);
    await page.getByRole("button", { name: "Create Secret" }).click();
    await h1(name);
    await page.getByText("api-key", { exact: true }).waitFor();
    expect(await page.content()).not.toContain(value);
    const stored = await cluster.call<{ data: Record<string, string> }>(
      "GET",
      `/api/v1/namespaces/${NS}/secrets/${name}`,
    );
    expect(Buffer.from(stored.data["api-key"] ?? "", "base64").toString()).toBe(value);

    await page.getByRole("button", { name: "Add a value" }).click();
    await page.getByLabel("Key", { exact: true }).fill("other");
    await page.getByLabel("Value", { exact: true }).fill(value);
    await page.getByRole("button", { name: "Save" }).click();
    await session.toast(`Secret ${name} saved.`);
    await page.getByText("other", { exact: true }).waitFor();

    const template = freshName("with-secret");
    await go(`/templates/create?namespace=${NS}`);
    await nameField().fill(template);
    await page.getByRole("button", { name: "Add a credential" }).click();
    const credential = page.getByRole("group", { name: "credential 1", exact: true });
    await credential.getByLabel("Secret", { exact: true }).selectOption(name);
    await credential.getByLabel("Key", { exact: false }).selectOption("other");
    await credential.getByLabel("Environment variable").fill("TOKEN");
    await page.getByLabel("Ask a person").selectOption("Always");
    await page.getByRole("button", { name: "Add a tool" }).click();
    await page
      .getByRole("group", { name: "tool 1", exact: true })
      .getByLabel("Object", { exact: true })
      .selectOption("tickets");
    await page.getByLabel("YAML of the new AgentTemplate").getByText("env: TOKEN").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: "Create AgentTemplate" }).click();
    await h1(template);

    await go(`/secrets?namespace=${NS}`);
    await page.getByRole("link", { name, exact: true }).click();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete Secret" }).click();
    await h1("Secrets");
    await page.getByRole("link", { name, exact: true }).waitFor({ state: "detached" });
  });

  test("an AgentTemplate is created in the form, with validation errors at their fields", async () => {
    const { page, go } = session;
    session.expectedErrors = [422];
    const name = freshName("template");
    await go(`/templates/create?namespace=${NS}`);
    await nameField().fill("Not A Name");
    await page.getByRole("button", { name: "Create AgentTemplate" }).click();
    await page.getByText("One field is invalid.").waitFor();
    expect(await nameField().getAttribute("aria-invalid")).toBe("true");
    await nameField().fill(name);
    await page.getByRole("button", { name: "Create AgentTemplate" }).click();
    await h1(name);
    await page.getByText("Agents using this template").first().waitFor();
    await deleteShown(session, "AgentTemplate", new RegExp(`the template ${name}`));
    await h1("Templates");
  });

  test("a Registry is created from YAML, and a template is assembled from it", async () => {
    const { page, go } = session;
    await go(`/registries/create?namespace=${NS}`);
    await page.getByLabel("YAML of the new Registry").getByText("my-registry").waitFor();
    await page.getByRole("button", { name: "Validate" }).click();
    await page.getByText("Valid: the server would accept it.").waitFor();

    const name = freshName("assembled");
    await go(`/registries/${NS}/${REGISTRY}/assemble`);
    await nameField().fill(name);
    await page.getByRole("radio").first().check();
    await page.getByRole("checkbox").first().check();
    await page.getByLabel("YAML of the new AgentTemplate").getByText("executorImage").waitFor();
    await page.getByRole("button", { name: "Create AgentTemplate" }).click();
    await h1(name);
    await page.getByText("127.0.0.1:9/dev:1").waitFor();

    await go(`/registries/${NS}/${REGISTRY}/assemble?output=agent`);
    await page.getByRole("radio").first().check();
    await page.getByLabel("YAML of the new Agent").getByText("kind: Agent").waitFor();
    await page.getByRole("button", { name: "Create Agent" }).waitFor();
  });

  test("the configuration is edited, reviewed and saved", async () => {
    const { page, go } = session;
    session.expectedErrors = [404];
    await go("/config");
    await page.getByText("No configuration exists").waitFor();
    await page.getByRole("button", { name: "Review changes" }).click();
    const dialog = page.getByRole("dialog", { name: "Save the configuration?" });
    await dialog.getByText("maxRetainedTasks: 1000").waitFor();
    await dialog.getByRole("button", { name: "Save" }).click();
    await session.toast("Configuration saved.");
    await page.getByText("1,000 Tasks").or(page.getByText("1000 Tasks")).first().waitFor();
  });

  test("a missing object shows an error with a link to the list", async () => {
    const { page, go } = session;
    session.expectedErrors = [404];
    await go(`/agents/${NS}/no-such-agent`);
    await page.getByRole("heading", { level: 2, name: "Not found" }).waitFor();
    await page.getByRole("link", { name: "All Agents" }).click();
    await h1("Agents");
  });
});
