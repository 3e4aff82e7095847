import { expect, test } from "vitest";
import { parse } from "yaml";
import { editable, withVersionOf } from "./editable";

const whole = `apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata:
  name: a
  namespace: shop
  uid: 1-2-3
  resourceVersion: "5"
  generation: 2
  creationTimestamp: 2026-11-18T11:00:00Z
  managedFields:
    - manager: kubectl
  finalizers:
    - kubeopencode.io/task-cleanup
  labels:
    team: web
  annotations:
    note: mine
spec:
  timeout: 5m
status:
  phase: Queued
`;

test("the editor shows what a user owns", () => {
  expect(parse(editable(whole))).toEqual({
    apiVersion: "kubeopencode.io/v1alpha1",
    kind: "Task",
    metadata: { name: "a", namespace: "shop", labels: { team: "web" }, annotations: { note: "mine" } },
    spec: { timeout: "5m" },
  });
});

test("a changed status or version does not change the edited text", () => {
  expect(editable(whole.replace("Queued", "Running").replace('"5"', '"6"'))).toBe(editable(whole));
  expect(editable(whole.replace("5m", "7m"))).not.toBe(editable(whole));
});

test("an edit is sent with the version that it replaces", () => {
  const sent: unknown = parse(withVersionOf(whole, editable(whole).replace("5m", "9m")));
  expect(sent).toMatchObject({ metadata: { name: "a", resourceVersion: "5" }, spec: { timeout: "9m" } });
  expect(withVersionOf(whole, "spec: {}\n")).toBe("spec: {}\n");
});
