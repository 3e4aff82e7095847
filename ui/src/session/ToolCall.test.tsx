import { fireEvent, render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { SessionMessage, SessionPart } from "../api/types";
import { matching } from "./search";
import { ToolCall } from "./ToolCall";

const call = (state: SessionPart["state"]): SessionPart => ({ id: "p", type: "tool", tool: "bash", state });
const long = Array.from({ length: 40 }, (_, line) => `line ${line}`).join("\n");
const isOpen = () => screen.getByRole("group").hasAttribute("open");

test("the output of a running command is shown as it grows", () => {
  const running = (output: string) => call({ status: "running", input: { command: "make" }, metadata: { output } });
  const { rerender } = render(<ToolCall part={running("")} />);
  expect(isOpen()).toBe(false);
  rerender(<ToolCall part={running("compiling\n")} />);
  expect(isOpen()).toBe(true);
  expect(screen.getByText(/compiling/)).toBeInTheDocument();
  rerender(<ToolCall part={running(long)} />);
  expect(isOpen()).toBe(true);
  expect(screen.getByText(/line 39/)).toBeInTheDocument();
});

test("long output is collapsed when the command has ended, unless the user opens it", () => {
  const ended = call({ status: "completed", input: { command: "make" }, output: long });
  const { rerender } = render(<ToolCall part={ended} />);
  expect(isOpen()).toBe(false);
  fireEvent.click(screen.getByText("bash"));
  expect(isOpen()).toBe(true);
  rerender(<ToolCall part={call({ status: "completed", input: { command: "make" }, output: "ok" })} />);
  expect(isOpen()).toBe(true);
});

test("a search opens the calls that contain it and marks it", () => {
  const ended = call({ status: "completed", input: { command: "make" }, output: long });
  render(<ToolCall part={ended} search="LINE 39" />);
  expect(isOpen()).toBe(true);
  expect(screen.getByText("line 39").tagName).toBe("MARK");
});

test("a search leaves the parts that contain it", () => {
  const message = (id: string, parts: SessionPart[]): SessionMessage =>
    ({ info: { id, role: "assistant" }, parts }) as SessionMessage;
  const all = [
    message("a", [
      { id: "t", type: "text", text: "I run the tests" },
      call({ output: "3 passed", status: "completed" }),
    ]),
    message("b", [{ id: "u", type: "text", text: "Done" }]),
  ];
  expect(matching(all, "")).toBe(all);
  expect(matching(all, "PASSED").map(({ info, parts }) => [info.id, parts.map((part) => part.id)])).toEqual([
    ["a", ["p"]],
  ]);
});
