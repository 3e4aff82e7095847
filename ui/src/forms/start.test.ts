import { expect, test } from "vitest";
import { startOf } from "./start";

const at = (namespace: string, name = "one") => ({ namespace, name });

test("a form starts where a Task can be done", () => {
  expect(startOf("", ["default", "demo"], [at("demo")], []).namespace).toBe("demo");
  expect(startOf("", ["default", "demo"], [], [at("demo")]).namespace).toBe("demo");
  expect(startOf("", ["default", "demo"], [at("demo"), at("default")], []).namespace).toBe("default");
});

test("a chosen namespace stays, whatever is there", () => {
  expect(startOf("team", ["default", "team"], [at("demo")], [])).toEqual({ namespace: "team", doer: {} });
});

test("where nobody is, it is default or the first that may be seen", () => {
  expect(startOf("", ["default", "team"], [], []).namespace).toBe("default");
  expect(startOf("", ["team"], [], []).namespace).toBe("team");
  expect(startOf("", [], [], []).namespace).toBe("default");
});

test("the only Agent is proposed, then the only template; several are a choice", () => {
  const agent = { agentRef: { name: "one" } };
  expect(startOf("demo", [], [at("demo")], [at("demo", "t")]).doer).toEqual(agent);
  expect(startOf("demo", [], [], [at("demo", "t")]).doer).toEqual({ templateRef: { name: "t" } });
  expect(startOf("demo", [], [at("demo"), at("demo", "two")], []).doer).toEqual({});
  expect(startOf("demo", [], [at("other")], []).doer).toEqual({});
});
