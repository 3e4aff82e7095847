import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import { renderPage, stubServer } from "../test/wrap";
import { SetupOffer } from "./SetupOffer";

beforeEach(() => localStorage.clear());

function server(providers: string[], allowed: boolean) {
  return stubServer(({ address }) => {
    if (address.endsWith("/rights")) return { body: { allowed: [allowed, allowed] } };
    if (address.endsWith("/namespaces")) return { body: { namespaces: ["default"] } };
    return { body: { items: providers.map((name) => ({ name, namespace: "default" })), total: providers.length } };
  });
}

test("without a provider the setup is offered until it is dismissed", async () => {
  server([], true);
  const { unmount } = renderPage(<SetupOffer />);
  expect(await screen.findByRole("link", { name: "Set up a model" })).toHaveAttribute("href", "/setup");
  await userEvent.click(screen.getByRole("button", { name: "Dismiss" }));
  expect(screen.queryByRole("link")).not.toBeInTheDocument();
  unmount();
  renderPage(<SetupOffer />);
  expect(screen.queryByRole("link")).not.toBeInTheDocument();
});

test("with a provider, or without the right to create one, nothing is offered", async () => {
  for (const [providers, allowed, asked] of [
    [["anthropic"], true, "/modelproviders"],
    [[], false, "/rights"],
  ] as const) {
    const sent = server([...providers], allowed);
    const { unmount } = renderPage(<SetupOffer />);
    await waitFor(() => expect(sent.some((call) => call.address.includes(asked))).toBe(true));
    await waitFor(() => expect(screen.queryByRole("link")).not.toBeInTheDocument());
    unmount();
  }
});
