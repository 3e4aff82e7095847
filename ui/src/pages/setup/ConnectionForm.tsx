import { CircleCheck, ExternalLink, PlugZap } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useSetupSave, useSetupTest } from "../../api/setup";
import type { SetupFinding, SetupResponse } from "../../api/types";
import { useNamespaces } from "../../app/NamespaceSelect";
import { Button } from "../../components/Button";
import { classes } from "../../components/classes";
import { Field } from "../../components/Field";
import { Problem } from "../../components/Problem";
import { Select } from "../../components/Select";
import surface from "../../components/surface.module.css";
import { TextInput } from "../../components/TextInput";
import { FieldPair } from "../../forms/FieldPair";
import { NO_PROBLEMS, type Problems, problemsOf } from "../../lib/fields";
import { ModelField } from "./ModelField";
import type { ProviderInfo } from "./providers";
import styles from "./Setup.module.css";

const FIELDS = ["key", "baseUrl", "model", "name"];

export interface ConnectionFormProps {
  provider: ProviderInfo;
  namespace: string;
  onBack: () => void;
  onSaved: (namespace: string, answer: SetupResponse) => void;
}

/** The second step: address and key, a test from the server, the model, and saving. */
export function ConnectionForm({ provider, namespace: initial, onBack, onSaved }: ConnectionFormProps) {
  const known = useNamespaces();
  const [namespace, setNamespace] = useState(initial);
  const [key, setKey] = useState("");
  const [url, setUrl] = useState(provider.address.kind === "prefilled" ? provider.address.url : "");
  const [name, setName] = useState("");
  const [model, setModel] = useState("");
  const [finding, setFinding] = useState<SetupFinding>();
  const [problems, setProblems] = useState<Problems>(NO_PROBLEMS);
  const test = useSetupTest(namespace);
  const save = useSetupSave(namespace);
  const busy = test.isPending || save.isPending;
  const failed = finding !== undefined && !finding.works;
  // The first test finds the models; until then there is nothing to save.
  const ready = finding !== undefined || model !== "";

  const connection = { provider: provider.id, baseUrl: url.trim() || undefined, key: key.trim() || undefined };
  const changed = (set: (value: string) => void) => (value: string) => {
    set(value);
    // The result of the last test does not hold for other values.
    setFinding(undefined);
    setProblems(NO_PROBLEMS);
  };
  const precheck = (needsModel: boolean): boolean => {
    const byField: Record<string, string> = {};
    if (provider.address.kind !== "fixed" && url.trim() === "") byField.baseUrl = "Base URL is required.";
    if (provider.needsKey && key.trim() === "") byField.key = "API key is required.";
    if (needsModel && model.trim() === "") byField.model = "Model is required.";
    setProblems({ byField, other: [] });
    return Object.keys(byField).length === 0;
  };

  const runTest = async (chosen: string): Promise<boolean> => {
    try {
      const found = await test.mutateAsync({ ...connection, model: chosen.trim() || undefined });
      setFinding(found);
      if (found.works && chosen === "" && found.suggestedModel) setModel(found.suggestedModel);
      return found.works;
    } catch (error) {
      setFinding(undefined);
      setProblems(problemsOf(error, FIELDS));
      return false;
    }
  };
  const saveNow = async () => {
    try {
      const answer = await save.mutateAsync({ ...connection, model: model.trim(), name: name.trim() || undefined });
      // The key is not needed any more.
      setKey("");
      onSaved(namespace, answer);
    } catch (error) {
      setProblems(problemsOf(error, FIELDS));
    }
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!ready) {
      if (precheck(false)) await runTest("");
    } else if (precheck(true) && (await runTest(model))) {
      await saveNow();
    }
  };

  return (
    <form onSubmit={submit} className={styles.form} noValidate>
      <div className={classes(surface.raised, styles.panel)}>
        <h2>Connect to {provider.title}</h2>
        {provider.address.kind !== "fixed" && (
          <Field
            label="Base URL"
            required
            problem={problems.byField.baseUrl}
            hint={
              provider.address.kind === "prefilled"
                ? "Where Ollama listens. Tasks must reach this address too."
                : "Usually ends with /v1. Tasks must reach this address too."
            }
          >
            {(parts) => (
              <TextInput
                {...parts}
                inputMode="url"
                value={url}
                placeholder={provider.address.kind === "required" ? provider.address.placeholder : undefined}
                onValue={changed(setUrl)}
              />
            )}
          </Field>
        )}
        {provider.id !== "ollama" && (
          <Field
            label="API key"
            required={provider.needsKey}
            problem={problems.byField.key}
            hint={
              <>
                Stored in a Secret of the namespace and never shown again.{" "}
                {provider.keyPage && (
                  <a href={provider.keyPage} target="_blank" rel="noreferrer" className={styles.link}>
                    Create a key <ExternalLink size={11} aria-hidden="true" />
                  </a>
                )}
              </>
            }
          >
            {(parts) => (
              <TextInput
                {...parts}
                type="password"
                data-1p-ignore
                value={key}
                placeholder={provider.keyPlaceholder}
                onValue={changed(setKey)}
              />
            )}
          </Field>
        )}
        <details className={styles.more} open={problems.byField.name !== undefined || undefined}>
          <summary>More settings</summary>
          <FieldPair>
            <Field label="Namespace" required>
              {(parts) => (
                <Select
                  {...parts}
                  value={namespace}
                  onValue={setNamespace}
                  options={known.includes(namespace) ? known : [namespace, ...known]}
                />
              )}
            </Field>
            <Field label="Name" problem={problems.byField.name} hint="Of the provider and the template.">
              {(parts) => <TextInput {...parts} value={name} placeholder={provider.id} onValue={setName} />}
            </Field>
          </FieldPair>
          {provider.address.kind === "fixed" && (
            <Field label="Base URL" problem={problems.byField.baseUrl} hint="For a proxy or gateway.">
              {(parts) => <TextInput {...parts} inputMode="url" value={url} onValue={changed(setUrl)} />}
            </Field>
          )}
        </details>
        {finding?.works && (
          <div className={styles.works} role="status">
            <CircleCheck size={15} aria-hidden="true" />
            {finding.message}
          </div>
        )}
        {failed && <Problem error={finding.message} />}
        {ready && (
          <ModelField
            models={finding?.models ?? []}
            value={model}
            problem={problems.byField.model}
            onValue={(value) => {
              setModel(value);
              setProblems(NO_PROBLEMS);
            }}
          />
        )}
        {problems.other.map((message) => (
          <Problem key={message} error={message} />
        ))}
      </div>
      <div className={styles.foot}>
        <Button onClick={onBack} disabled={busy}>
          Back
        </Button>
        <Button
          icon={<PlugZap size={15} />}
          busy={test.isPending && !save.isPending}
          disabled={busy}
          variant={ready ? "default" : "primary"}
          type={ready ? "button" : "submit"}
          onClick={ready ? () => precheck(false) && void runTest(model) : undefined}
        >
          Test connection
        </Button>
        {ready && (
          <Button type="submit" variant="primary" busy={save.isPending} disabled={busy}>
            Save and continue
          </Button>
        )}
        {failed && model.trim() !== "" && (
          <Button variant="plain" disabled={busy} onClick={() => precheck(true) && void saveNow()}>
            Save anyway
          </Button>
        )}
      </div>
    </form>
  );
}
