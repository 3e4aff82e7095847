import { screen, waitFor } from "@testing-library/react";
import { expect, test } from "vitest";
import type { WhoAmI } from "../api/types";
import { renderPage, stubServer } from "../test/wrap";
import { ReadOnlyNotice } from "./ReadOnlyNotice";

function asSeenBy(part: Partial<WhoAmI>) {
  const body: WhoAmI = { user: "ada", groups: [], anonymous: false, readOnly: false, via: "session", ...part };
  const sent = stubServer(() => ({ body }));
  const page = renderPage(<ReadOnlyNotice />);
  return { sent, page };
}

test("who is not signed in reads why nothing can be changed", async () => {
  asSeenBy({ user: "anonymous", anonymous: true, readOnly: true, via: "anonymous" });
  expect(await screen.findByText(/You are not signed in: you can look/)).toBeInTheDocument();
});

test("who may change things reads nothing", async () => {
  const { sent, page } = asSeenBy({});
  await waitFor(() => expect(sent).toHaveLength(1));
  await waitFor(() => expect(page.cache.isFetching()).toBe(0));
  expect(page.container).toBeEmptyDOMElement();
});
