import { useMemo, useState } from "react";
import { parseDocument, stringify } from "yaml";

export type Path = (string | number)[];
export type Json = Record<string, unknown>;

/** The value at a path, or nothing. */
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

/** A copy with the value at a path replaced. Empty values go, and so do parents that become empty. */
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
  /** Why the text is not YAML; the form shows the last text that was. */
  mistake: string | undefined;
  text: (path: Path) => string;
  set: (path: Path, value: unknown) => void;
  setYaml: (text: string) => void;
  replace: (object: Json) => void;
}

/**
 * One object, edited in a form and as YAML at once. The object is the truth: a field that the form does not know
 * stays when it was written in YAML, and the text stays as typed until the form changes something.
 */
export function useManifest(initial: () => Json): Manifest {
  const [state, setState] = useState<{ object: Json; typed?: string; mistake?: string }>(() => ({ object: initial() }));
  return useMemo(
    () => ({
      object: state.object,
      yaml: state.typed ?? stringify(state.object, { lineWidth: 0 }),
      mistake: state.mistake,
      text: (path) => {
        const value = valueAt(state.object, path);
        return value === undefined || value === null ? "" : String(value);
      },
      set: (path, value) =>
        setState((seen) => ({ object: withValue(seen.object, path, value === "" ? undefined : value) as Json })),
      setYaml: (typed) =>
        setState((seen) => {
          const document = parseDocument(typed);
          const mistake = document.errors[0]?.message;
          if (mistake !== undefined) return { ...seen, typed, mistake };
          const object: unknown = document.toJS();
          if (object === null || typeof object !== "object" || Array.isArray(object)) {
            return { ...seen, typed, mistake: "One object with apiVersion, kind, metadata and spec is expected." };
          }
          return { object: object as Json, typed };
        }),
      replace: (object) => setState({ object }),
    }),
    [state],
  );
}

/** The beginning of every object of ours. */
export function skeleton(kind: string, namespace: string, spec: Json = {}): Json {
  return { apiVersion: "kubeopencode.io/v1alpha1", kind, metadata: { name: "", namespace }, spec };
}

/** What is sent: a Task without a name gets one from the server. */
export function named(object: Json, generate?: string): Json {
  const metadata = { ...((object.metadata as Json | undefined) ?? {}) };
  if (!metadata.name) {
    delete metadata.name;
    if (generate) metadata.generateName = generate;
  }
  return { ...object, metadata };
}
