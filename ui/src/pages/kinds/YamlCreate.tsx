import { useState } from "react";
import { useNavigate } from "react-router";
import { type Kind, pageOf } from "../../api/kinds";
import { useCreate } from "../../api/objects";
import type { Identified } from "../../api/types";
import { Button } from "../../components/Button";
import { Notice } from "../../components/Notice";
import { Problem } from "../../components/Problem";
import { Stack } from "../../components/Stack";
import { toast } from "../../components/toast";
import { CodeEditor } from "../../editor/CodeEditor";
import { type Json, newObject, useManifest, valueAt } from "../../forms/manifest";
import { NewPage } from "../NewPage";

/** Creates an object of a kind without a form, from example YAML. */
export function YamlCreate({ kind, spec }: { kind: Kind; spec: Json }) {
  return <NewPage kind={kind}>{({ namespace }) => <YamlForm kind={kind} spec={spec} namespace={namespace} />}</NewPage>;
}

function YamlForm({ kind, spec, namespace }: { kind: Kind; spec: Json; namespace: string }) {
  const navigate = useNavigate();
  const create = useCreate<Identified>(kind);
  const manifest = useManifest(() => {
    const object = newObject(kind.kind, namespace, spec);
    return { ...object, metadata: { name: `my-${kind.kind.toLowerCase()}`, namespace } };
  });
  const [valid, setValid] = useState(false);
  const send = (dryRun: boolean) =>
    create.mutateAsync({
      namespace: String(valueAt(manifest.object, ["metadata", "namespace"]) ?? namespace),
      yaml: manifest.yaml,
      dryRun,
    });
  const check = () => {
    setValid(false);
    send(true).then(
      () => setValid(true),
      () => {},
    );
  };
  const submit = () =>
    send(false).then(
      (created) => {
        toast.done(`${kind.one} ${created.name} created.`);
        navigate(pageOf(kind.kind, created.namespace, created.name) ?? kind.list);
      },
      () => {},
    );
  return (
    <Stack gap={3}>
      <CodeEditor
        label={`YAML of the new ${kind.one}`}
        value={manifest.yaml}
        onValue={(text) => {
          setValid(false);
          manifest.setYaml(text);
        }}
        invalid={manifest.syntaxError !== undefined}
        height="min(60vh, 560px)"
      />
      {manifest.syntaxError && <Problem error={manifest.syntaxError} />}
      {create.error ? <Problem error={create.error} /> : null}
      {valid && <Notice tone="idle">Valid: the server would accept it.</Notice>}
      <Stack row gap={2}>
        <Button
          variant="primary"
          busy={create.isPending}
          disabled={manifest.syntaxError !== undefined}
          onClick={submit}
        >
          Create {kind.one}
        </Button>
        <Button disabled={create.isPending || manifest.syntaxError !== undefined} onClick={check}>
          Validate
        </Button>
      </Stack>
    </Stack>
  );
}
