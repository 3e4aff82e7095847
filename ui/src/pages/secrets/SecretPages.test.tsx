import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { Route, Routes } from "react-router";
import { expect, test } from "vitest";
import { renderPage, type Sent, stubServer } from "../../test/wrap";
import SecretCreate from "./SecretCreate";
import SecretDetail from "./SecretDetail";
import SecretList from "./SecretList";

const SECRET = { name: "github", namespace: "shop", type: "Opaque", keys: ["token", "old"], resourceVersion: "1" };

function open(address: string, list: object[] = [SECRET]): Sent[] {
  const sent = stubServer((call) => {
    if (call.method !== "GET") return { status: call.method === "POST" ? 201 : 200, body: SECRET };
    if (call.address.endsWith("/secrets/github")) return { body: SECRET };
    if (call.address.endsWith("/secrets")) return { body: { items: list, total: list.length } };
    if (call.address.endsWith("/namespaces")) return { body: { namespaces: ["shop"] } };
    return { body: { agents: [], agentTemplates: [], total: 0 } };
  });
  renderPage(
    <Routes>
      <Route path="/secrets" element={<SecretList />} />
      <Route path="/secrets/create" element={<SecretCreate />} />
      <Route path="/secrets/:namespace/:name" element={<SecretDetail />} />
    </Routes>,
    address,
  );
  return sent;
}

const written = (sent: Sent[]) => sent.filter((call) => call.method !== "GET");

test("the list shows keys; without Secrets it offers a new one", async () => {
  open("/secrets?namespace=shop");
  expect(await screen.findByRole("link", { name: "github" })).toHaveAttribute("href", "/secrets/shop/github");
  expect(screen.getByText("token")).toBeInTheDocument();
});

test("an empty namespace offers a new Secret", async () => {
  open("/secrets?namespace=shop", []);
  await screen.findByText("No Secrets yet");
  expect(screen.getAllByRole("link", { name: "New Secret" })).toHaveLength(2);
});

test("missing and repeated keys are reported before anything is sent", async () => {
  const sent = open("/secrets/create?namespace=shop");
  await userEvent.click(await screen.findByRole("button", { name: "Add a value" }));
  const [, second] = screen.getAllByLabelText("Key");
  await userEvent.type(second as HTMLElement, "api-key");
  await userEvent.click(screen.getByRole("button", { name: "Create Secret" }));
  expect(await screen.findByRole("textbox", { name: "Name" })).toHaveAccessibleDescription(/Name is required/);
  expect(second).toHaveAccessibleDescription(/repeated/);
  expect(written(sent)).toEqual([]);
});

test("a Secret is created with its values, which disappear from the page", async () => {
  const sent = open("/secrets/create?namespace=shop");
  await userEvent.type(await screen.findByRole("textbox", { name: "Name" }), "github");
  await userEvent.type(screen.getByLabelText("Value"), "hunter2");
  await userEvent.click(screen.getByRole("button", { name: "Create Secret" }));
  await screen.findByRole("heading", { level: 1, name: "github" });
  expect(JSON.parse(written(sent)[0]?.body ?? "")).toEqual({ name: "github", data: { "api-key": "hunter2" } });
  expect(document.body.innerHTML).not.toContain("hunter2");
});

test("values are replaced and removed with one save", async () => {
  const sent = open("/secrets/shop/github");
  await userEvent.click((await screen.findAllByRole("button", { name: "Replace" }))[0] as HTMLElement);
  await userEvent.type(screen.getByLabelText("Value"), "hunter3");
  await userEvent.click(screen.getAllByRole("button", { name: "Remove" }).at(-1) as HTMLElement);
  await userEvent.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(written(sent)).toHaveLength(1));
  expect(JSON.parse(written(sent)[0]?.body ?? "")).toEqual({ data: { token: "hunter3" }, remove: ["old"] });
});
