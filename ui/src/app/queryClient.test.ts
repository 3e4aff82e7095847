import { onlineManager } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import { makeQueryClient } from "./queryClient";

afterEach(() => onlineManager.setOnline(true));

test("requests are sent while the browser is offline: the server may run on this machine", () => {
  onlineManager.setOnline(false);
  const cache = makeQueryClient();
  const request = vi.fn(() => Promise.resolve("answer"));
  void cache.fetchQuery({ queryKey: ["local"], queryFn: request });
  expect(request).toHaveBeenCalledOnce();
});
