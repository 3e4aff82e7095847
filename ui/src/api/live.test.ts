import { QueryClient } from "@tanstack/react-query";
import { afterEach, expect, test, vi } from "vitest";
import { aTask } from "../test/bodies";
import { keys } from "./keys";
import { TASK } from "./kinds";
import { applyChange } from "./live";
import { fetchObject } from "./objects";
import type { Page, Task } from "./types";
import { isNewer } from "./versions";

afterEach(() => vi.unstubAllGlobals());

const task = (part: Partial<Task>) => aTask({ name: "a", resourceVersion: "5", ...part });

function cacheWith(cached: Task): QueryClient {
  const cache = new QueryClient();
  cache.setQueryData(keys.detail("Task", "n", "a"), cached);
  cache.setQueryData(keys.list(TASK, "", {}, 0), { items: [cached], total: 1 });
  return cache;
}

const shownIn = (cache: QueryClient) => ({
  detail: cache.getQueryData<Task>(keys.detail("Task", "n", "a")),
  row: cache.getQueryData<Page<Task>>(keys.list(TASK, "", {}, 0))?.items[0],
});

test("a change updates the detail and every list with the object", () => {
  const cache = cacheWith(task({}));
  applyChange(cache, {
    kind: "Task",
    namespace: "n",
    name: "a",
    type: "MODIFIED",
    object: task({ resourceVersion: "6", phase: "Completed" }),
  });
  const { detail, row } = shownIn(cache);
  expect(detail?.phase).toBe("Completed");
  expect(row?.phase).toBe("Completed");
});

test("an older version never overwrites a newer one", () => {
  const cache = cacheWith(task({ resourceVersion: "10", phase: "Completed" }));
  applyChange(cache, {
    kind: "Task",
    namespace: "n",
    name: "a",
    type: "MODIFIED",
    object: task({ resourceVersion: "9" }),
  });
  expect(shownIn(cache).detail?.phase).toBe("Completed");
  expect(shownIn(cache).row?.phase).toBe("Completed");
});

test("versions are compared as numbers, not as texts", () => {
  expect(isNewer("9", "10")).toBe(true);
  expect(isNewer("10", "9")).toBe(false);
});

test("fields omitted from lists stay in the detail, removed fields are removed", () => {
  const cache = cacheWith(task({ description: "long ".repeat(400), contexts: [{ type: "Text" }], queuePosition: 3 }));
  const short = "long ".repeat(200);
  applyChange(cache, {
    kind: "Task",
    namespace: "n",
    name: "a",
    type: "MODIFIED",
    object: task({ resourceVersion: "6", description: short }),
  });
  const { detail } = shownIn(cache);
  expect(detail?.description).toHaveLength(2000);
  expect(detail?.contexts).toHaveLength(1);
  expect(detail?.queuePosition).toBeUndefined();
});

test("a change that arrives while the object is being fetched is not lost", async () => {
  const cache = new QueryClient();
  const detail = keys.detail("Task", "n", "a");
  // The answer was made before the change and arrives after it.
  vi.stubGlobal("fetch", async () => {
    applyChange(cache, {
      kind: "Task",
      namespace: "n",
      name: "a",
      type: "MODIFIED",
      object: task({ resourceVersion: "6", phase: "Completed" }),
    });
    return Response.json(task({ contexts: [{ type: "Text" }] }));
  });
  const shown = await cache.fetchQuery({ queryKey: detail, queryFn: () => fetchObject<Task>(cache, TASK, "n", "a") });
  expect(shown.phase).toBe("Completed");
  expect(shown.contexts).toHaveLength(1);
});
