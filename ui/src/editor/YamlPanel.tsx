import { Download } from "lucide-react";
import { useState } from "react";
import { parseDocument } from "yaml";
import { ApiError } from "../api/error";
import type { Kind } from "../api/kinds";
import { useReplace, useYaml } from "../api/objects";
import { Button } from "../components/Button";
import { CopyButton } from "../components/CopyButton";
import { Dialog } from "../components/Dialog";
import { DiffView } from "../components/DiffView";
import { ErrorState } from "../components/ErrorState";
import { Notice } from "../components/Notice";
import { Problem } from "../components/Problem";
import { Segmented } from "../components/Segmented";
import { SkeletonBlock } from "../components/SkeletonBlock";
import { Stack } from "../components/Stack";
import { toast } from "../components/toast";
import { changesBetween } from "../lib/changes";
import { editable, withVersionOf } from "../lib/editable";
import { CodeEditor } from "./CodeEditor";

export interface YamlPanelProps {
  kind: Kind;
  namespace: string;
  name: string;
  readOnly?: boolean;
}

/** View and edit an object as YAML: review the diff, validate on the server, save. */
export function YamlPanel({ kind, namespace, name, readOnly }: YamlPanelProps) {
  const yaml = useYaml(kind, namespace, name);
  const check = useReplace(kind, namespace, name);
  const save = useReplace(kind, namespace, name);
  // The object that the draft is based on, so that the diff does not contain concurrent changes.
  const [draft, setDraft] = useState<{ base: string; text: string } | undefined>();
  const [reviewing, setReviewing] = useState(false);
  const [part, setPart] = useState<"editable" | "whole">(readOnly ? "whole" : "editable");

  if (yaml.error) return <ErrorState error={yaml.error} onRetry={() => yaml.refetch()} small />;
  if (yaml.data === undefined) return <SkeletonBlock lines={10} label="Loading the YAML" />;

  const whole = yaml.data;
  const current = editable(whole);
  const text = draft?.text ?? current;
  const changed = draft !== undefined && draft.text !== editable(draft.base);
  // A changed status is no conflict, a changed spec is.
  const moved = changed && editable(draft.base) !== current;
  // With the version that the draft is based on, the server refuses to replace a change that the user has not seen.
  const toSend = withVersionOf(moved ? draft.base : whole, text);
  const syntaxError = changed ? parseDocument(text).errors[0]?.message : undefined;
  const isWhole = part === "whole";
  const shown = isWhole ? whole : text;

  const rebased = async () => {
    const { data } = await yaml.refetch();
    const same = draft && data !== undefined && editable(draft.base) === editable(data);
    return same ? withVersionOf(data, draft.text) : undefined;
  };
  const review = () => {
    setReviewing(true);
    save.reset();
    check.mutate({ yaml: toSend, dryRun: true, rebased });
  };
  const store = () =>
    save.mutate(
      { yaml: toSend, rebased },
      {
        onSuccess: () => {
          setDraft(undefined);
          setReviewing(false);
          toast.done(`${kind.one} ${name} saved.`);
        },
      },
    );
  const problem = save.error ?? check.error;

  return (
    <Stack gap={3}>
      {moved && (
        <Notice
          tone="warn"
          action={
            <Button small onClick={() => setDraft(undefined)}>
              Load the new version
            </Button>
          }
        >
          The object changed on the server. Load the new version before you save.
        </Notice>
      )}
      {!readOnly && (
        <Stack row gap={2}>
          <Segmented
            label="Part of the object"
            value={part}
            options={[
              { value: "editable", label: "Editable" },
              { value: "whole", label: "Whole object" },
            ]}
            onValue={setPart}
          />
        </Stack>
      )}
      <CodeEditor
        key={part}
        label={isWhole ? `Whole YAML of ${kind.one} ${name}` : `YAML of ${kind.one} ${name}`}
        value={shown}
        readOnly={isWhole}
        invalid={!isWhole && syntaxError !== undefined}
        height="min(64vh, 720px)"
        onValue={(next) => setDraft((previous) => ({ base: previous?.base ?? whole, text: next }))}
      />
      {syntaxError && <Problem error={syntaxError} />}
      <Stack row gap={2}>
        {!isWhole && (
          <>
            <Button variant="primary" disabled={!changed || syntaxError !== undefined} onClick={review}>
              Review changes
            </Button>
            <Button disabled={!changed} onClick={() => setDraft(undefined)}>
              Discard
            </Button>
          </>
        )}
        <CopyButton text={shown} label="Copy the YAML" />
        <Button variant="plain" icon={<Download size={14} />} onClick={() => download(`${name}.yaml`, shown)}>
          Download
        </Button>
      </Stack>
      <Dialog
        title="Save these changes?"
        open={reviewing}
        onClose={() => setReviewing(false)}
        wide
        actions={
          <>
            <Button onClick={() => setReviewing(false)}>Keep editing</Button>
            <Button variant="primary" busy={save.isPending || check.isPending} disabled={!!check.error} onClick={store}>
              {check.isPending ? "Validating" : "Save"}
            </Button>
          </>
        }
      >
        <Stack gap={3}>
          <DiffView lines={changesBetween(draft ? editable(draft.base) : current, text)} label="Changes" />
          {check.isSuccess && !save.error && <Notice tone="idle">Validated by the server.</Notice>}
          {problem ? <Problem error={problem} /> : null}
          {ApiError.is(problem, 409) && (
            <p className="quiet">
              Conflict: someone else changed the object. Close this dialog, load the new version and repeat your edit.
            </p>
          )}
        </Stack>
      </Dialog>
    </Stack>
  );
}

/** Downloads a text as a file. */
function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
