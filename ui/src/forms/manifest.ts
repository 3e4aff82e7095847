import { useMemo, useState } from "react";
import { parseDocument, stringify } from "yaml";

export type Path = (string | number)[];
export type Json = Record<string, unknown>;

/** The value at a path, or `undefined`. */
export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, key) => (at !== null && typeof at === "object" ? (at as Record<string | number, unknown>)[key] : undefined),
    value,
  );
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined ||
    value === "" ||
    (value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 0) ||
    (Array.isArray(value) && value.length === 0)
  );
}

/** A copy with the value at a path replaced. Empty values and empty parents are removed. */
export function withValue(value: unknown, path: Path, next: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return next;
  const inner = withValue(valueAt(value, [key]), rest, next);
  if (typeof key === "number") {
    const list = Array.isArray(value) ? value.slice() : [];
    if (inner === undefined) list.splice(key, 1);
    else list[key] = inner;
    return list;
  }
  const copy: Json = value !== null && typeof value === "object" && !Array.isArray(value) ? { ...(value as Json) } : {};
  if (isEmpty(inner)) delete copy[key];
  else copy[key] = inner;
  return copy;
}

export interface Manifest {
  object: Json;
  yaml: string;
  /** Why the text is not valid YAML; the form then shows the last valid object. */
  syntaxError: string | undefined;
  text: (path: Path) => string;
  set: (path: Path, value: unknown) => void;
  setYaml: (text: string) => void;
  replace: (object: Json) => void;
}

/**
 * One object, edited as a form and as YAML. The object is the source of truth: fields unknown to the form are kept,
 * and the text stays as typed until the form changes a value.
 */
export function useManifest(initial: () => Json): Manifest {
  const [state, setState] = useState<{ object: Json; typed?: string; syntaxError?: string }>(() => ({
    object: initial(),
  }));
  return useMemo(
    () => ({
      object: state.object,
      yaml: state.typed ?? stringify(state.object, { lineWidth: 0 }),
      syntaxError: state.syntaxError,
      text: (path) => {
        const value = valueAt(state.object, path);
        return value === undefined || value === null ? "" : String(value);
      },
      set: (path, value) =>
        setState((previous) => ({
          object: withValue(previous.object, path, value === "" ? undefined : value) as Json,
        })),
      setYaml: (typed) =>
        setState((previous) => {
          const document = parseDocument(typed);
          const syntaxError = document.errors[0]?.message;
          if (syntaxError !== undefined) return { ...previous, typed, syntaxError };
          const object: unknown = document.toJS();
          if (object === null || typeof object !== "object" || Array.isArray(object)) {
            return { ...previous, typed, syntaxError: "Expected one object with apiVersion, kind, metadata and spec." };
          }
          return { object: object as Json, typed };
        }),
      replace: (object) => setState({ object }),
    }),
    [state],
  );
}

/** A new object of our API group. */
export function newObject(kind: string, namespace: string, spec: Json = {}): Json {
  return { apiVersion: "kubeopencode.io/v1alpha1", kind, metadata: { name: "", namespace }, spec };
}

/** Requests a generated name if the name is empty. */
export function withName(object: Json, generate?: string): Json {
  const metadata = { ...((object.metadata as Json | undefined) ?? {}) };
  if (!metadata.name) {
    delete metadata.name;
    if (generate) metadata.generateName = generate;
  }
  return { ...object, metadata };
}
