import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { renderPage, stubServer } from "../../test/wrap";
import TaskCreate from "./TaskCreate";

vi.mock("../../editor/CodeEditor", () => ({
  CodeEditor: ({ label, value, onValue }: { label: string; value: string; onValue: (text: string) => void }) => (
    <textarea aria-label={label} value={value} onChange={(event) => onValue(event.target.value)} />
  ),
}));

function server(onCreate: (dryRun: boolean) => { status?: number; body: unknown }) {
  return stubServer(({ method, address }) => {
    if (method === "POST") return onCreate(address.includes("dryRun=true"));
    if (address.includes("/agents"))
      return { body: { agents: [{ name: "dev", namespace: "shop", phase: "Running" }], total: 1 } };
    if (address.includes("/agenttemplates")) return { body: { agentTemplates: [], total: 0 } };
    return { body: { namespaces: ["shop"] } };
  });
}

const ADDRESS = "/tasks/create?namespace=shop&agent=dev";
const description = () => screen.findByRole("textbox", { name: /^Description/ });
const create = async () => userEvent.click(await screen.findByRole("button", { name: "Create Task" }));

test("missing required fields are reported without a request", async () => {
  const sent = server(() => ({ body: {} }));
  renderPage(<TaskCreate />, ADDRESS);
  await create();
  expect(await description()).toHaveAccessibleDescription(/Description is required/);
  expect(await description()).toHaveAttribute("aria-invalid", "true");
  expect(sent.filter((call) => call.method === "POST")).toHaveLength(0);
});

test("validation errors of the server are shown at their fields, and nothing is created", async () => {
  const sent = server(() => ({
    status: 422,
    body: {
      error: "Invalid",
      message: "invalid",
      code: 422,
      fields: [
        { field: "spec.contexts[0].text", message: "text is required when type is Text" },
        { field: "metadata.name", message: "must be lowercase" },
      ],
    },
  }));
  renderPage(<TaskCreate />, ADDRESS);
  await userEvent.type(await description(), "Do it");
  await userEvent.click(screen.getByRole("button", { name: "Text" }));
  await create();
  await waitFor(() =>
    expect(screen.getByRole("textbox", { name: /^Text/ })).toHaveAccessibleDescription(/text is required/),
  );
  const name = screen.getAllByRole("textbox", { name: /^Name/ })[0];
  expect(name).toHaveAccessibleDescription(/must be lowercase/);
  expect(screen.getByText("2 fields are invalid.")).toBeInTheDocument();
  expect(sent.filter((call) => call.method === "POST").every((call) => call.address.includes("dryRun=true"))).toBe(
    true,
  );
});

test("a valid Task is validated by a dry run, then created", async () => {
  const dryRuns: boolean[] = [];
  const sent = server((dryRun) => {
    dryRuns.push(dryRun);
    return { status: 201, body: { name: "task-abc", namespace: "shop" } };
  });
  renderPage(<TaskCreate />, ADDRESS);
  await userEvent.type(await description(), "Do it");
  await create();
  await waitFor(() => expect(dryRuns).toEqual([true, false]));
  const body = sent.findLast((call) => call.method === "POST")?.body;
  expect(body).toContain("generateName: task-");
  expect(body).toContain("description: Do it");
  expect(body).toContain("name: dev");
});

test("editing the YAML updates the form", async () => {
  server(() => ({ body: {} }));
  renderPage(<TaskCreate />, ADDRESS);
  const yaml = await screen.findByRole("textbox", { name: "YAML of the new Task" });
  await userEvent.clear(yaml);
  await userEvent.click(yaml);
  await userEvent.paste("kind: Task\nmetadata:\n  namespace: shop\nspec:\n  description: From YAML\n");
  expect(await description()).toHaveValue("From YAML");
});

test("the namespace is the first field", async () => {
  server(() => ({ body: {} }));
  renderPage(<TaskCreate />, ADDRESS);
  await description();
  const fields = document.querySelectorAll("form input, form textarea, form select");
  expect(fields[0]).toBe(screen.getByRole("combobox", { name: /^Namespace/ }));
});

test("a Git URL is validated while it is typed, and an invalid one is not sent", async () => {
  const sent = server(() => ({ body: {} }));
  renderPage(<TaskCreate />, ADDRESS);
  await userEvent.type(await description(), "Do it");
  await userEvent.click(screen.getByRole("button", { name: "Git repository" }));
  const repository = screen.getByRole("textbox", { name: /^Repository/ });
  await userEvent.type(repository, "https://");
  expect(repository).not.toHaveAttribute("aria-invalid");
  await userEvent.type(repository, "github.com");
  expect(repository).toHaveAccessibleDescription(/path of the repository is missing/);
  await create();
  expect(sent.filter((call) => call.method === "POST" && !call.address.includes("/rights"))).toHaveLength(0);
  await userEvent.type(repository, "/team/project");
  expect(repository).not.toHaveAttribute("aria-invalid");
});
