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
import { SkeletonBlock } from "../components/SkeletonBlock";
import { Stack } from "../components/Stack";
import { toast } from "../components/toast";
import { changesBetween } from "../lib/changes";
import { rebase } from "../lib/rebase";
import { CodeEditor } from "./CodeEditor";

export interface YamlPanelProps {
  kind: Kind;
  namespace: string;
  name: string;
  readOnly?: boolean;
}

/** The whole object: read, change, look at the difference, let the server check it, save. */
export function YamlPanel({ kind, namespace, name, readOnly }: YamlPanelProps) {
  const yaml = useYaml(kind, namespace, name);
  const check = useReplace(kind, namespace, name);
  const save = useReplace(kind, namespace, name);
  // The text that the draft was made from, so that a change by somebody else does not look like ours.
  const [draft, setDraft] = useState<{ base: string; text: string } | undefined>();
  const [reviewing, setReviewing] = useState(false);

  if (yaml.error) return <ErrorState error={yaml.error} onRetry={() => yaml.refetch()} small />;
  if (yaml.data === undefined) return <SkeletonBlock lines={10} label="Loading the YAML" />;

  const current = yaml.data;
  const text = draft?.text ?? current;
  const changed = draft !== undefined && draft.text !== draft.base;
  const toSend = changed ? rebase(draft.base, current, text) : text;
  const moved = toSend === undefined;
  const mistake = changed ? parseDocument(text).errors[0]?.message : undefined;

  const rebased = async () => {
    const { data } = await yaml.refetch();
    return draft && data !== undefined ? rebase(draft.base, data, draft.text) : undefined;
  };
  const review = () => {
    setReviewing(true);
    save.reset();
    check.mutate({ yaml: toSend ?? text, dryRun: true, rebased });
  };
  const store = () =>
    save.mutate(
      { yaml: toSend ?? text, rebased },
      {
        onSuccess: () => {
          setDraft(undefined);
          setReviewing(false);
          toast.done(`${kind.one} ${name} was saved.`);
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
          It changed on the server while you were editing. Saving will be refused until you load the new version.
        </Notice>
      )}
      <CodeEditor
        label={`YAML of ${kind.one} ${name}`}
        value={text}
        readOnly={readOnly}
        invalid={mistake !== undefined}
        height="min(64vh, 720px)"
        onValue={(next) => setDraft((seen) => ({ base: seen?.base ?? current, text: next }))}
      />
      {mistake && <Problem error={mistake} />}
      <Stack row gap={2}>
        {!readOnly && (
          <>
            <Button look="primary" disabled={!changed || mistake !== undefined} onClick={review}>
              Review changes
            </Button>
            <Button disabled={!changed} onClick={() => setDraft(undefined)}>
              Discard
            </Button>
          </>
        )}
        <CopyButton text={text} label="Copy the YAML" />
        <Button look="plain" icon={<Download size={14} />} onClick={() => download(`${name}.yaml`, text)}>
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
            <Button onClick={() => setReviewing(false)}>Go on editing</Button>
            <Button look="primary" busy={save.isPending || check.isPending} disabled={!!check.error} onClick={store}>
              {check.isPending ? "Checking" : "Save"}
            </Button>
          </>
        }
      >
        <Stack gap={3}>
          <DiffView lines={changesBetween(draft?.base ?? current, text)} label="Changes" />
          {check.isSuccess && !save.error && <Notice tone="idle">The server has checked it: it is valid.</Notice>}
          {problem ? <Problem error={problem} /> : null}
          {ApiError.is(problem, 409) && (
            <p className="quiet">
              Somebody else saved it meanwhile. Close this, load the new version, change it again.
            </p>
          )}
        </Stack>
      </Dialog>
    </Stack>
  );
}

/** Hands a text to the browser as a file. */
function download(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
