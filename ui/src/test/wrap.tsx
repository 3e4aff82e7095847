import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { type RenderResult, render } from "@testing-library/react";
import type { ReactElement } from "react";
import { createMemoryRouter, RouterProvider } from "react-router";
import { vi } from "vitest";

/** Renders a component with router and query client. */
export function renderPage(element: ReactElement, address = "/"): RenderResult & { cache: QueryClient } {
  const cache = new QueryClient({ defaultOptions: { queries: { retry: false }, mutations: { retry: false } } });
  const router = createMemoryRouter([{ path: "*", element }], { initialEntries: [address] });
  const result = render(
    <QueryClientProvider client={cache}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  return { ...result, cache };
}

export interface Sent {
  method: string;
  address: string;
  body: string | undefined;
  headers: Record<string, string>;
}

export interface Answer {
  status?: number;
  body: unknown;
  /** Content type of a body that is a text; JSON if unset. */
  type?: string;
}

/** Stubs `fetch`. Returns the recorded requests. */
export function stubServer(answer: (call: Sent) => Answer): Sent[] {
  const sent: Sent[] = [];
  vi.stubGlobal("fetch", async (address: string, init: RequestInit = {}) => {
    const headers = (init.headers ?? {}) as Record<string, string>;
    const call = { method: init.method ?? "GET", address, body: init.body as string | undefined, headers };
    sent.push(call);
    const { status = 200, body, type } = answer(call);
    const content = type === undefined ? JSON.stringify(body) : String(body);
    return new Response(content, { status, headers: { "Content-Type": type ?? "application/json" } });
  });
  return sent;
}
