import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { renderPage, stubServer } from "../test/wrap";
import { UserMenu } from "./UserMenu";

const me = { user: "oidc:ada", groups: [], anonymous: false, readOnly: false, via: "session" };

test("the signed-in user is visible without opening the menu", async () => {
  stubServer(() => ({ body: me }));
  renderPage(<UserMenu onHelp={() => {}} />);
  expect(await screen.findByText("oidc:ada")).toBeVisible();
  expect(screen.getByRole("button", { name: "Signed in as oidc:ada" })).toBeInTheDocument();
});

test("an anonymous visitor is not shown as a user", async () => {
  stubServer(() => ({ body: { ...me, user: "system:anonymous", anonymous: true, via: "anonymous" } }));
  renderPage(<UserMenu onHelp={() => {}} />);
  expect(await screen.findByText("Not signed in")).toBeVisible();
});
