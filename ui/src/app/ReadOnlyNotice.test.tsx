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

test("anonymous users see that access is read-only", async () => {
  asSeenBy({ user: "anonymous", anonymous: true, readOnly: true, via: "anonymous" });
  expect(await screen.findByText(/Not signed in/)).toBeInTheDocument();
});

test("users with write access see no notice", async () => {
  const { sent, page } = asSeenBy({});
  await waitFor(() => expect(sent).toHaveLength(1));
  await waitFor(() => expect(page.cache.isFetching()).toBe(0));
  expect(page.container).toBeEmptyDOMElement();
});
