import { expect, test } from "vitest";
import { ago, formatDuration, parseDuration, span } from "./time";

test("a span is formatted in its two largest units", () => {
  const cases: [number, string][] = [
    [0, "0s"],
    [59.6, "1m"],
    [65, "1m 5s"],
    [3600, "1h"],
    [12_000, "3h 20m"],
    [187_200, "2d 4h"],
  ];
  for (const [seconds, text] of cases) expect(span(seconds)).toBe(text);
});

test("past and future differ", () => {
  const now = Date.parse("2026-11-16T12:00:00Z");
  expect(ago("2026-11-16T11:59:58Z", now)).toBe("now");
  expect(ago("2026-11-16T11:00:00Z", now)).toBe("1h ago");
  expect(ago("2026-11-16T12:05:00Z", now)).toBe("in 5m");
  expect(ago("2026-11-12T12:00:00Z", now)).toBe("4d ago");
});

test("only durations of the API are parsed", () => {
  expect(parseDuration("1h30m")).toBe(5400);
  expect(parseDuration("90s")).toBe(90);
  expect(parseDuration("10 minutes")).toBeUndefined();
  expect(parseDuration("")).toBeUndefined();
});

test("a duration is formatted without zeros, other text is unchanged", () => {
  expect(formatDuration("1h0m0s")).toBe("1h");
  expect(formatDuration("5m30s")).toBe("5m 30s");
  expect(formatDuration("soon")).toBe("soon");
});
