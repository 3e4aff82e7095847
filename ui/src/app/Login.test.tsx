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

test("without an identity provider a token is all there is", async () => {
  renderPage(<Login />, "/tasks");
  expect(await screen.findByLabelText(/^Token/)).toBeInTheDocument();
  expect(screen.queryByRole("link")).not.toBeInTheDocument();
});

test("an identity provider is offered by its name, and leads back to where one wanted to be", async () => {
  serverWith({ name: "Acme", path: "/login/oidc" });
  renderPage(<Login />, "/tasks?phase=Running");
  expect(await screen.findByRole("link", { name: "Sign in with Acme" })).toHaveAttribute(
    "href",
    "/login/oidc?next=%2Ftasks%3Fphase%3DRunning",
  );
});

test.each([
  ["expired", /took too long/],
  ["denied", /was refused there/],
  ["refused", /no name that can be used/],
  ["failed", /usable answer/],
  ["a word of a newer server", /usable answer/],
])("a login that ended with '%s' says so", (word, sentence) => {
  renderPage(<Login />, `/login?problem=${encodeURIComponent(word)}`);
  expect(screen.getByRole("alert")).toHaveTextContent(sentence);
});

test("after a failed login one starts at the front page", async () => {
  serverWith({ name: "Acme", path: "/login/oidc" });
  renderPage(<Login />, "/login?problem=expired");
  expect((await screen.findByRole("link")).getAttribute("href")).toBe("/login/oidc?next=%2F");
});
