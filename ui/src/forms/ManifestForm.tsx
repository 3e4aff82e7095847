import { CircleCheck } from "lucide-react";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { stringify } from "yaml";
import { type Kind, pageOf } from "../api/kinds";
import { useCreate } from "../api/objects";
import type { Identified } from "../api/types";
import { Button } from "../components/Button";
import { Problem } from "../components/Problem";
import { toast } from "../components/toast";
import { CodeEditor } from "../editor/CodeEditor";
import { NO_PROBLEMS, type Problems, problemsOf } from "../lib/fields";
import styles from "./ManifestForm.module.css";
import { type Manifest, valueAt, withName } from "./manifest";

export interface ManifestFormProps {
  kind: Kind;
  manifest: Manifest;
  /** Paths of the visible fields, to place validation errors. */
  shown: (manifest: Manifest) => string[];
  /** Client-side validation. */
  precheck?: (manifest: Manifest) => Record<string, string>;
  /** Prefix of the generated name, for kinds with an optional name. */
  generateName?: string;
  children: (problems: Record<string, string>) => ReactNode;
}

/** A form next to its YAML. The server validates the object by a dry run before it is created. */
export function ManifestForm({ kind, manifest, shown, precheck, generateName, children }: ManifestFormProps) {
  const navigate = useNavigate();
  const create = useCreate<Identified>(kind);
  const [problems, setProblems] = useState<Problems>(NO_PROBLEMS);
  /** Whether the problems are those of `precheck`: they are computed again while the user corrects them. */
  const [early, setEarly] = useState(false);
  const [valid, setValid] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  // The first invalid field may be outside the viewport.
  useEffect(() => {
    if (problems !== NO_PROBLEMS) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [problems]);
  const namespace = String(valueAt(manifest.object, ["metadata", "namespace"]) ?? "");

  const send = async (dryRun: boolean) => {
    setValid(false);
    const found = precheck?.(manifest) ?? {};
    setEarly(Object.keys(found).length > 0);
    if (Object.keys(found).length > 0) {
      setProblems({ byField: found, other: [] });
      return undefined;
    }
    const yaml = stringify(withName(manifest.object, generateName), { lineWidth: 0 });
    try {
      const answer = await create.mutateAsync({ namespace, yaml, dryRun });
      setProblems(NO_PROBLEMS);
      return answer;
    } catch (error) {
      setProblems(problemsOf(error, shown(manifest)));
      return undefined;
    }
  };

  const check = async () => setValid((await send(true)) !== undefined);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    // The dry run reports all validation errors without side effects.
    if (!(await send(true))) return;
    const created = await send(false);
    if (!created) return;
    toast.done(`${kind.one} ${created.name} created.`);
    navigate(pageOf(kind.kind, created.namespace || namespace, created.name) ?? kind.list);
  };

  const now = early ? (precheck?.(manifest) ?? {}) : problems.byField;
  const byField = Object.fromEntries(Object.entries(now).filter(([field]) => field in problems.byField));
  const found = Object.keys(byField).length;
  return (
    <form className={styles.form} ref={form} onSubmit={submit} noValidate>
      <div className={styles.fields}>
        {children(byField)}
        {problems.other.length > 0 && (
          <div className={styles.problems}>
            {problems.other.map((message) => (
              <Problem key={message} error={message} />
            ))}
          </div>
        )}
        <div className={styles.foot}>
          <Button type="submit" variant="primary" busy={create.isPending} disabled={manifest.syntaxError !== undefined}>
            Create {kind.one}
          </Button>
          <Button onClick={check} disabled={create.isPending || manifest.syntaxError !== undefined}>
            Validate
          </Button>
          {valid && (
            <span role="status" className="quiet">
              <CircleCheck size={13} aria-hidden="true" /> Valid: the server would accept it.
            </span>
          )}
          {found > 0 && (
            <span role="status">{found === 1 ? "One field is invalid." : `${found} fields are invalid.`}</span>
          )}
        </div>
      </div>
      <div className={styles.side}>
        <div className={styles.sideHead}>
          <h2>YAML</h2>
          <span className="quiet">Form and YAML stay in sync</span>
        </div>
        <CodeEditor
          label={`YAML of the new ${kind.one}`}
          value={manifest.yaml}
          onValue={manifest.setYaml}
          invalid={manifest.syntaxError !== undefined}
          height="min(66vh, 640px)"
        />
        {manifest.syntaxError && <Problem error={manifest.syntaxError} />}
      </div>
    </form>
  );
}
