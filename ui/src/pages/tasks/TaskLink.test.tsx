import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { aTask } from "../../test/bodies";
import { renderPage } from "../../test/wrap";
import { RunsOn } from "./RunsOn";
import { TaskLink } from "./TaskLink";
import { taskColumns } from "./taskColumns";

test("a Task is shown by its title, with name and author below", () => {
  renderPage(<TaskLink task={aTask({ name: "fix-1", title: "Fix the login", createdBy: "ada" })} />);
  expect(screen.getByRole("link", { name: "Fix the login" })).toHaveAttribute("href", "/tasks/n/fix-1");
  expect(screen.getByText("n/fix-1 · ada")).toBeInTheDocument();
});

test("a Task without a description is shown by its name", () => {
  renderPage(<TaskLink task={aTask({ name: "fix-1" })} />);
  expect(screen.getByRole("link", { name: "fix-1" })).toBeInTheDocument();
});

test("a target is shown with its kind", () => {
  renderPage(
    <>
      <RunsOn task={aTask({ agentRef: { name: "dev" } })} />
      <RunsOn task={aTask({ templateRef: { name: "base" } })} />
    </>,
  );
  expect(screen.getByRole("link", { name: "Agent dev" })).toHaveAttribute("href", "/agents/n/dev");
  expect(screen.getByRole("link", { name: "Template base" })).toHaveAttribute("href", "/templates/n/base");
});

test("the column of the target is not named after one of its kinds", () => {
  const titles = taskColumns.map((column) => column.title);
  expect(titles).toContain("Runs on");
  expect(titles).not.toContain("Agent");
});
