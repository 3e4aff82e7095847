import type { Kind } from "../api/kinds";
import type { Option } from "../components/Select";
import { type Manifest, type Path, valueAt } from "./manifest";

type Condition = (text: (path: Path) => string) => boolean;

interface Common {
  label: string;
  /** Path below the base of the form, such as the spec. */
  path: Path;
  hint?: string;
  required?: boolean | Condition;
  /** Whether to show the field; always when unset. */
  when?: Condition;
}

/** One field of a form, described as data. */
export type FieldSpec =
  | (Common & { type: "text"; placeholder?: string; number?: boolean })
  | (Common & { type: "area"; placeholder?: string; rows?: number })
  | (Common & { type: "select"; options: (Option | string)[]; none?: string })
  /** A reference `{name}` to an object of the same namespace; `as: "text"` stores the name alone. */
  | (Common & { type: "object"; kind: Kind; none?: string; as?: "text" })
  /** A reference `{name, key}` to a value in a Secret of the same namespace. */
  | (Common & { type: "secret"; keyOptional?: boolean })
  /** A list of texts, one per line. */
  | (Common & { type: "lines"; placeholder?: string })
  /** A list of objects with fields of their own. */
  | (Common & { type: "items"; one: string; initial: object; fields: FieldSpec[]; title: Path });

/** Fields in one row: two short ones, or one. */
export type RowSpec = FieldSpec | [FieldSpec, FieldSpec];

export interface SectionSpec {
  title: string;
  rows: RowSpec[];
}

/** The field path of errors: `openApi.url`. */
export function fieldName(path: Path): string {
  return path.join(".");
}

/** All fields of sections, without those inside items. */
export function fieldsOf(sections: SectionSpec[]): FieldSpec[] {
  return sections.flatMap((section) => section.rows.flat());
}

export function isRequired({ required = false }: FieldSpec, text: (path: Path) => string): boolean {
  return typeof required === "function" ? required(text) : required;
}

/** Errors of empty required fields, by field. */
export function missingFields(sections: SectionSpec[], manifest: Manifest, base: Path): Record<string, string> {
  const text = (path: Path) => manifest.text([...base, ...path]);
  const problems: Record<string, string> = {};
  for (const field of fieldsOf(sections)) {
    if (!isRequired(field, text) || (field.when && !field.when(text))) continue;
    const isReference = field.type === "secret" || (field.type === "object" && field.as !== "text");
    const path = isReference ? [...field.path, "name"] : field.path;
    if (text(path) === "") problems[fieldName(field.path)] = `${field.label} is required.`;
  }
  return problems;
}

/** Paths of the visible fields, those inside items included, to place errors of the server. */
export function shownFields(sections: SectionSpec[], manifest: Manifest): string[] {
  return fieldsOf(sections).flatMap((field) => {
    const name = fieldName(field.path);
    if (field.type !== "items") return [name];
    const items = valueAt(manifest.object, ["spec", ...field.path]);
    const inside = (Array.isArray(items) ? items : []).flatMap((_, i) => [
      `${name}.${i}`,
      ...field.fields.map((part) => `${name}.${i}.${fieldName(part.path)}`),
    ]);
    return [name, ...inside];
  });
}
