import { screen } from "@testing-library/react";
import { beforeEach, expect, test } from "vitest";
import { renderPage, stubServer } from "../test/wrap";
import { Login } from "./Login";

function serverWith(oidc?: { name: string; path: string }) {
  stubServer(() => ({
    body: { version: "1", features: [], authentication: { anonymous: false, anonymousWrite: false, oidc } },
  }));
}

beforeEach(() => serverWith());

test("without an identity provider only the token field is shown", async () => {
  renderPage(<Login />, "/tasks");
  expect(await screen.findByLabelText(/^Token/)).toBeInTheDocument();
  expect(screen.queryByRole("link")).not.toBeInTheDocument();
});

test("an identity provider is shown by its name and redirects back to the requested page", async () => {
  serverWith({ name: "Acme", path: "/login/oidc" });
  renderPage(<Login />, "/tasks?phase=Running");
  expect(await screen.findByRole("link", { name: "Sign in with Acme" })).toHaveAttribute(
    "href",
    "/login/oidc?next=%2Ftasks%3Fphase%3DRunning",
  );
});

test.each([
  ["expired", /timed out/],
  ["denied", /denied the sign-in/],
  ["refused", /no usable user name/],
  ["failed", /invalid response/],
  ["unknown", /invalid response/],
])("the login problem '%s' is explained", (problem, sentence) => {
  renderPage(<Login />, `/login?problem=${encodeURIComponent(problem)}`);
  expect(screen.getByRole("alert")).toHaveTextContent(sentence);
});

test("a login link that was used leads to a new one", async () => {
  renderPage(<Login />, "/login?code=used");
  expect(screen.getByRole("alert")).toHaveTextContent(/already used or has expired.*kubeopencode login --open/);
  expect(await screen.findByLabelText(/^Token/)).toBeInTheDocument();
});

test("after a failed login the redirect leads to the dashboard", async () => {
  serverWith({ name: "Acme", path: "/login/oidc" });
  renderPage(<Login />, "/login?problem=expired");
  expect((await screen.findByRole("link")).getAttribute("href")).toBe("/login/oidc?next=%2F");
});
