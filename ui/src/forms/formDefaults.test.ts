import { expect, test } from "vitest";
import { formDefaultsFor } from "./formDefaults";

const at = (namespace: string, name = "one") => ({ namespace, name });

test("the default namespace has an Agent or template", () => {
  expect(formDefaultsFor("", ["default", "demo"], [at("demo")], []).namespace).toBe("demo");
  expect(formDefaultsFor("", ["default", "demo"], [], [at("demo")]).namespace).toBe("demo");
  expect(formDefaultsFor("", ["default", "demo"], [at("demo"), at("default")], []).namespace).toBe("default");
});

test("a selected namespace is kept", () => {
  expect(formDefaultsFor("team", ["default", "team"], [at("demo")], [])).toEqual({ namespace: "team", runsOn: {} });
});

test("without Agents and templates the namespace is default or the first one", () => {
  expect(formDefaultsFor("", ["default", "team"], [], []).namespace).toBe("default");
  expect(formDefaultsFor("", ["team"], [], []).namespace).toBe("team");
  expect(formDefaultsFor("", [], [], []).namespace).toBe("default");
});

test("the only Agent is preselected, then the only template; several are not", () => {
  const agent = { agentRef: { name: "one" } };
  expect(formDefaultsFor("demo", [], [at("demo")], [at("demo", "t")]).runsOn).toEqual(agent);
  expect(formDefaultsFor("demo", [], [], [at("demo", "t")]).runsOn).toEqual({ templateRef: { name: "t" } });
  expect(formDefaultsFor("demo", [], [at("demo"), at("demo", "two")], []).runsOn).toEqual({});
  expect(formDefaultsFor("demo", [], [at("other")], []).runsOn).toEqual({});
});
