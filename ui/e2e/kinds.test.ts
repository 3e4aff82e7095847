import { describe, expect, test } from "vitest";
import { NS, REGISTRY } from "./seed";
import { deleteShown, freshName, useBrowser, writeYaml } from "./session";

/** Kinds created from YAML: path, display name, and an invalid spec. */
const YAML_KINDS: [string, string, string][] = [
  ["models", "Model", "{}"],
  ["modelproviders", "ModelProvider", "{type: no-such-type}"],
  ["instructions", "Instruction", "{text: 7}"],
  ["remotemcpservers", "RemoteMCPServer", "{}"],
  ["mcpservers", "MCPServer", "{transport: pigeon}"],
  ["agenttools", "AgentTool", "{description: 7}"],
  ["agentworkflows", "AgentWorkflow", "{steps: no}"],
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
