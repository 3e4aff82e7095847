import { expect, test } from "vitest";
import { bytes, humanize, money, moneyMark, plural, sentence, short } from "./format";
import { full } from "./time";

test("small amounts differ from zero", () => {
  expect(money("0")).toBe("$0");
  expect(money("0.000400")).toBe("$0.0004");
  expect(money("1.234")).toBe("$1.23");
});

test("axis ticks differ", () => {
  expect([0, 0.0075, 0.015, 0.0225, 0.03].map(moneyMark)).toEqual(["$0", "$0.0075", "$0.015", "$0.0225", "$0.03"]);
  expect([2.5, 1200].map(moneyMark)).toEqual(["$2.5", "$1200"]);
});

test("reasons are humanized and keep abbreviations", () => {
  expect(humanize("AgentAtCapacity")).toBe("Agent at capacity");
  expect(humanize("OOMKilled")).toBe("OOM killed");
  expect(humanize("ModelError")).toBe("Model error");
});

test("messages are capitalized, names are not", () => {
  expect(sentence("the model answered HTTP 401")).toBe("The model answered HTTP 401");
  expect(sentence("maxConcurrentTasks is 1")).toBe("maxConcurrentTasks is 1");
  expect(sentence("shop/web-dev is gone")).toBe("shop/web-dev is gone");
  expect(sentence("")).toBe("");
  const moment = "2026-11-16T07:35:48.653476499Z";
  expect(sentence(`it fails at ${moment} if nobody helps`)).toBe(`It fails at ${full(moment)} if nobody helps`);
});

test("counts are compact", () => {
  expect(short(9_999)).toBe("9,999");
  expect(short(1_234_567)).toBe("1.2M");
  expect(plural(1, "Task")).toBe("1 Task");
  expect(plural(2, "Task")).toBe("2 Tasks");
  expect(bytes(1536)).toBe("1.5 KiB");
});
