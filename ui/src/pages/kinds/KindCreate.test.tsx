import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { Route, Routes } from "react-router";
import { expect, test, vi } from "vitest";
import { KINDS } from "../../api/kinds";
import { fieldsOf } from "../../forms/fieldSpecs";
import { KIND_FORMS } from "../../forms/kindForms";
import { renderPage, type Sent, stubServer } from "../../test/wrap";
import KindCreate from "./KindCreate";

vi.mock("../../editor/CodeEditor", () => ({
  CodeEditor: ({ label, value, onValue }: { label: string; value: string; onValue: (text: string) => void }) => (
    <textarea aria-label={label} value={value} onChange={(event) => onValue(event.target.value)} />
  ),
}));

function open(
  plural: string,
  answer: (sent: Sent) => { status?: number; body: unknown } | undefined = () => undefined,
) {
  const sent = stubServer((call) => {
    const own = answer(call);
    if (own) return own;
    if (call.method === "POST") return { status: 201, body: { name: "made", namespace: "shop" } };
    if (call.address.includes("/secrets")) return { body: { items: [{ name: "key", keys: ["api-key"] }], total: 1 } };
    if (call.address.includes("/modelproviders"))
      return { body: { items: [{ name: "lab", namespace: "shop" }], total: 1 } };
    if (call.address.includes("/namespaces/shop/") || call.address.includes("?"))
      return { body: { items: [], agents: [], agentTemplates: [], total: 0 } };
    return { body: { namespaces: ["shop"] } };
  });
  renderPage(
    <Routes>
      <Route path="/kinds/:plural/create" element={<KindCreate />} />
      <Route path="*" element={<p>left</p>} />
    </Routes>,
    `/kinds/${plural}/create?namespace=shop`,
  );
  return sent;
}

const name = async () => screen.findByRole("textbox", { name: /^Name/ });
const yamlOf = (kind: string) => screen.getByRole<HTMLTextAreaElement>("textbox", { name: `YAML of the new ${kind}` });
const create = (kind: string) => userEvent.click(screen.getByRole("button", { name: `Create ${kind}` }));

test.each(Object.keys(KIND_FORMS))("the form of %s has a label of its own for every field", async (kind) => {
  const plural = KINDS.find((one) => one.kind === kind)?.plural ?? "";
  open(plural);
  await name();
  const labels = fieldsOf(KIND_FORMS[kind]?.sections ?? []).map((field) => field.label);
  expect(new Set(labels).size).toBe(labels.length);
  await create(kind);
  expect(await name()).toHaveAccessibleDescription(/Name is required/);
});

test("a provider with a key from a Secret is created; its only key is chosen with the Secret", async () => {
  const sent = open("modelproviders");
  await userEvent.type(await name(), "lab");
  await userEvent.selectOptions(screen.getByLabelText("Type"), "openai-compatible");
  await create("ModelProvider");
  expect(screen.getByLabelText("Base URL")).toHaveAccessibleDescription(/Base URL is required/);
  await userEvent.type(screen.getByLabelText("Base URL"), "http://lab/v1");
  await waitFor(() => expect(within(screen.getByLabelText(/^API key/)).getByText("key")).toBeInTheDocument());
  await userEvent.selectOptions(screen.getByLabelText(/^API key/), "key");
  await create("ModelProvider");
  await screen.findByText("left");
  const body = sent.findLast((call) => call.method === "POST")?.body;
  expect(body).toContain("apiKeySecretRef:\n    name: key\n    key: api-key");
});

test("without the right to list Secrets their names are typed", async () => {
  open("modelproviders", (call) =>
    call.address.includes("/secrets")
      ? { status: 403, body: { error: "Forbidden", message: "no", code: 403 } }
      : undefined,
  );
  await userEvent.type(await screen.findByRole("textbox", { name: /^API key/ }), "mine");
  await userEvent.type(screen.getByRole("textbox", { name: /^Key/ }), "token");
  expect(yamlOf("ModelProvider").value).toContain("apiKeySecretRef:\n    name: mine\n    key: token");
});

test("numbers, references and lists arrive as such, and the YAML changes the form", async () => {
  open("models");
  await userEvent.selectOptions(
    await screen.findByLabelText("Provider"),
    await screen.findByRole("option", { name: "lab" }),
  );
  await userEvent.type(screen.getByLabelText(/^Context window/), "8192");
  await userEvent.type(screen.getByLabelText(/^Input price/), "0.05");
  const yaml = yamlOf("Model");
  expect(yaml.value).toContain("providerRef:\n    name: lab");
  expect(yaml.value).toContain("context: 8192");
  expect(yaml.value).toContain("input: 0.05");
  await userEvent.clear(yaml);
  await userEvent.click(yaml);
  await userEvent.paste("kind: Model\nmetadata:\n  namespace: shop\nspec:\n  model: from-yaml\n");
  expect(screen.getByLabelText("Model")).toHaveValue("from-yaml");
});

test("a list of lines keeps the line that is being typed", async () => {
  open("mcpservers");
  await userEvent.type(await screen.findByLabelText(/^Command/), "serve{enter}now");
  expect(yamlOf("MCPServer").value).toContain("command:\n    - serve\n    - now");
});
