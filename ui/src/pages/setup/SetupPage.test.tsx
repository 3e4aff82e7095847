import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { renderPage, type Sent, stubServer } from "../../test/wrap";
import SetupPage from "./SetupPage";

type Answer = { status?: number; body: unknown };

const WORKS = { works: true, message: "Connected: 2 models.", models: ["a", "b"], suggestedModel: "b" };
const SAVED = {
  template: "anthropic",
  objects: [
    { kind: "Secret", name: "anthropic-key" },
    { kind: "AgentTemplate", name: "anthropic" },
  ],
};

function server(on: { test?: (sent: Sent) => Answer; save?: (sent: Sent) => Answer }): Sent[] {
  return stubServer((sent) => {
    if (sent.address.endsWith("/setup/test")) return on.test?.(sent) ?? { body: WORKS };
    if (sent.address.endsWith("/setup")) return on.save?.(sent) ?? { body: SAVED };
    if (sent.method === "POST") return { status: 201, body: { name: "task-1", namespace: "default" } };
    if (sent.address.endsWith("/namespaces")) return { body: { namespaces: ["default", "shop"] } };
    return { body: { items: [], agents: [], agentTemplates: [], total: 0 } };
  });
}

const click = async (name: string | RegExp) => userEvent.click(await screen.findByRole("button", { name }));
const bodies = (sent: Sent[], end: string) =>
  sent.filter((call) => call.address.endsWith(end)).map((call) => JSON.parse(call.body ?? "{}"));

test("a key is tested, the suggested model is saved, and a first Task runs on the new template", async () => {
  const sent = server({});
  renderPage(<SetupPage />, "/setup");
  await click("Continue with Anthropic");
  await userEvent.type(await screen.findByLabelText("API key"), "sk-1");
  await click("Test connection");
  await screen.findByText("Connected: 2 models.");
  expect(screen.getByLabelText("Model")).toHaveValue("b");
  await click("Save and continue");
  await screen.findByText("The model is ready. Saved in namespace default:");
  expect(bodies(sent, "/setup/test")).toEqual([
    { provider: "anthropic", key: "sk-1" },
    { provider: "anthropic", key: "sk-1", model: "b" },
  ]);
  expect(bodies(sent, "/setup")).toEqual([{ provider: "anthropic", key: "sk-1", model: "b" }]);
  expect(document.body).not.toHaveTextContent("sk-1");
  await click("Run Task");
  await waitFor(() => expect(bodies(sent, "/tasks")).toHaveLength(1));
  expect(bodies(sent, "/tasks")[0]).toMatchObject({ templateRef: { name: "anthropic" } });
});

test("a missing key and a missing address are reported without a request", async () => {
  const sent = server({});
  renderPage(<SetupPage />, "/setup");
  await userEvent.click(await screen.findByRole("radio", { name: /OpenAI-compatible/ }));
  await click("Continue with OpenAI-compatible");
  await click("Test connection");
  expect(await screen.findByLabelText("Base URL")).toHaveAccessibleDescription(/Base URL is required/);
  await click("Back");
  await userEvent.click(await screen.findByRole("radio", { name: /Google/ }));
  await click("Continue with Google");
  await click("Test connection");
  expect(await screen.findByLabelText("API key")).toHaveAccessibleDescription(/API key is required/);
  expect(bodies(sent, "/setup/test")).toEqual([]);
});

test("a refused key is explained, and an untested model can be saved anyway", async () => {
  const sent = server({ test: () => ({ body: { works: false, message: "the key is wrong", models: [] } }) });
  renderPage(<SetupPage />, "/setup");
  await click("Continue with Anthropic");
  await userEvent.type(await screen.findByLabelText("API key"), "sk-1");
  await click("Test connection");
  await screen.findByText("the key is wrong");
  await userEvent.type(screen.getByLabelText("Model"), "claude");
  await click("Save and continue");
  await waitFor(() => expect(bodies(sent, "/setup/test")).toHaveLength(2));
  expect(bodies(sent, "/setup")).toEqual([]);
  await click("Save anyway");
  await screen.findByText("Run a first Task");
  expect(bodies(sent, "/setup")).toHaveLength(1);
});

test("Ollama needs no key, and errors of the server appear at their fields", async () => {
  server({
    save: () => ({ status: 422, body: { error: "Invalid", message: "bad name", code: 422, field: "name" } }),
  });
  renderPage(<SetupPage />, "/setup");
  await userEvent.click(await screen.findByRole("radio", { name: /Ollama/ }));
  await click("Continue with Ollama");
  expect(screen.queryByLabelText("API key")).not.toBeInTheDocument();
  expect(screen.getByLabelText("Base URL")).toHaveValue("http://127.0.0.1:11434");
  await click("Test connection");
  await screen.findByText("Connected: 2 models.");
  await click("Save and continue");
  await waitFor(() =>
    expect(screen.getByRole("textbox", { name: /^Name/, hidden: true })).toHaveAccessibleDescription(/bad name/),
  );
});
