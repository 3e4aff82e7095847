import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { Markdown } from "./Markdown";

test("blocks and inlines are elements", () => {
  render(
    <Markdown text={"# Report\n\n- [x] **done**\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```ts\nconst a = 1;\n```\n"} />,
  );
  expect(screen.getByRole("heading", { level: 3, name: "Report" })).toBeInTheDocument();
  expect(screen.getByRole("checkbox", { name: "Done" })).toBeChecked();
  expect(screen.getByText("done").tagName).toBe("STRONG");
  expect(screen.getByRole("cell", { name: "2" })).toHaveStyle({ textAlign: "right" });
  expect(document.querySelector("pre")).toHaveTextContent("const a = 1;");
});

test("HTML is text, and no script or data is a link or an image", () => {
  const { container } = render(
    <Markdown
      text={
        "<img src=x onerror=alert(1)> <script>alert(1)</script>\n\n[a](javascript:alert(1)) [b](data:text/html,x) ![c](https://tracker.example/p.png) [d](https://a.example)"
      }
    />,
  );
  expect(container.querySelector("img, script")).toBeNull();
  expect(screen.getByText(/<script>alert\(1\)<\/script>/)).toBeInTheDocument();
  expect(screen.getAllByRole("link").map((link) => link.getAttribute("href"))).toEqual(["https://a.example"]);
  expect(screen.getByRole("link")).toHaveAttribute("rel", "noopener noreferrer");
  expect(screen.getByText("[c]")).toBeInTheDocument();
});

test("an image is loaded from where its owner says", () => {
  render(<Markdown text="![shot](img/a.png)" image={(src) => `/files/${src}`} />);
  expect(screen.getByRole("img", { name: "shot" })).toHaveAttribute("src", "/files/img/a.png");
});
