import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { parse } from "yaml";
import { TASK } from "../api/kinds";
import { renderPage } from "../test/wrap";
import { YamlPanel } from "./YamlPanel";

vi.mock("./CodeEditor", () => ({
  CodeEditor: (props: { label: string; value: string; readOnly?: boolean; onValue: (text: string) => void }) => (
    <textarea
      aria-label={props.label}
      value={props.value}
      readOnly={props.readOnly}
      onChange={(event) => props.onValue(event.target.value)}
    />
  ),
}));

const WHOLE = `kind: Task
metadata:
  name: a
  uid: 1-2-3
  resourceVersion: "5"
spec:
  timeout: 5m
status:
  phase: Queued
`;

/** Serves the object as YAML and records what is sent. */
function serveYaml(): string[] {
  const sent: string[] = [];
  vi.stubGlobal("fetch", async (_address: string, init: RequestInit = {}) => {
    if (init.method !== "PUT") return new Response(WHOLE);
    sent.push(String(init.body));
    return new Response("{}", { headers: { "Content-Type": "application/json" } });
  });
  return sent;
}

test("the editor leaves out what the server writes, and sends the version that it replaces", async () => {
  const sent = serveYaml();
  renderPage(<YamlPanel kind={TASK} namespace="shop" name="a" />);
  const editor = await screen.findByRole("textbox", { name: "YAML of Task a" });
  expect(parse((editor as HTMLTextAreaElement).value)).toEqual({
    kind: "Task",
    metadata: { name: "a" },
    spec: { timeout: "5m" },
  });
  await userEvent.clear(editor);
  await userEvent.click(editor);
  await userEvent.paste("kind: Task\nmetadata:\n  name: a\nspec:\n  timeout: 9m\n");
  await userEvent.click(screen.getByRole("button", { name: "Review changes" }));
  await waitFor(() => expect(sent).toHaveLength(1));
  expect(parse(sent[0] ?? "")).toMatchObject({ metadata: { resourceVersion: "5" }, spec: { timeout: "9m" } });
});

test("the whole object is shown, and cannot be edited", async () => {
  serveYaml();
  renderPage(<YamlPanel kind={TASK} namespace="shop" name="a" />);
  await userEvent.click(await screen.findByRole("button", { name: "Whole object" }));
  const whole = screen.getByRole("textbox", { name: "Whole YAML of Task a" });
  expect(whole).toHaveValue(WHOLE);
  expect(whole).toHaveAttribute("readonly");
  expect(screen.queryByRole("button", { name: "Review changes" })).toBeNull();
});
