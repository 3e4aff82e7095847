import { fireEvent, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { parse } from "yaml";
import { renderPage, stubServer } from "../../test/wrap";
import TemplateCreate from "../templates/TemplateCreate";
import AgentCreate from "./AgentCreate";

vi.mock("../../editor/CodeEditor", () => ({
  CodeEditor: ({ label, value, onValue }: { label: string; value: string; onValue: (text: string) => void }) => (
    <textarea aria-label={label} value={value} onChange={(event) => onValue(event.target.value)} />
  ),
}));

function server() {
  stubServer(({ address }) => {
    if (address.includes("/secrets")) return { body: { items: [{ name: "github", keys: ["token"] }], total: 1 } };
    if (address.includes("/models")) return { body: { items: [{ name: "small", namespace: "shop" }], total: 1 } };
    if (address.endsWith("/namespaces")) return { body: { namespaces: ["shop"] } };
    return { body: { items: [], agents: [], agentTemplates: [], total: 0 } };
  });
}

const specOf = (kind: string) =>
  parse(screen.getByRole<HTMLTextAreaElement>("textbox", { name: `YAML of the new ${kind}` }).value).spec;
const set = (field: HTMLElement, value: string) => fireEvent.change(field, { target: { value } });
const click = async (name: string) => userEvent.click(screen.getByRole("button", { name }));

/** A form with many fields takes long to render on a busy machine. */
const LIMIT = { timeout: 30_000 };

/** Fills the fields that Agents and templates have in common. */
async function fill() {
  await userEvent.selectOptions(
    await screen.findByLabelText(/^Model/),
    (await screen.findAllByRole("option", { name: "small" }))[0] as HTMLElement,
  );
  await click("Add a credential");
  const credential = within(screen.getByRole("group", { name: "credential 1" }));
  await userEvent.selectOptions(
    credential.getByLabelText(/^Secret/),
    await credential.findByRole("option", { name: "github" }),
  );
  set(credential.getByLabelText(/^Environment variable/), "TOKEN");
  await click("Add a tool");
  set(within(screen.getByRole("group", { name: "tool 1" })).getByLabelText(/^Only these tools/), "search");
  await userEvent.selectOptions(screen.getByLabelText(/^Ask a person/), "Always");
  await click("Text");
}

const COMMON = {
  modelRef: { name: "small" },
  credentials: [{ secretRef: { name: "github" }, env: "TOKEN" }],
  tools: [{ ref: { kind: "RemoteMCPServer" }, toolNames: ["search"] }],
  approval: { mode: "Always" },
  contexts: [{ type: "Text" }],
};

test("the form of an Agent has model, credentials, tools, approval, contexts and budget", LIMIT, async () => {
  server();
  renderPage(<AgentCreate />, "/agents/create?namespace=shop");
  await fill();
  set(screen.getByLabelText(/^Max tokens/), "5000");
  set(screen.getByLabelText(/^Max cost/), "2.50");
  set(screen.getByLabelText(/^Window/), "24h");
  expect(specOf("Agent")).toMatchObject({ ...COMMON, budget: { maxTokens: 5000, maxCost: "2.50", window: "24h" } });
});

test("the form of a template has the same fields without a budget", LIMIT, async () => {
  server();
  renderPage(<TemplateCreate />, "/templates/create?namespace=shop");
  await fill();
  expect(specOf("AgentTemplate")).toMatchObject(COMMON);
  expect(screen.queryByLabelText(/^Max tokens/)).toBeNull();
});
