import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { parseDocument } from "yaml";
import { call, callText } from "../../api/client";
import { ApiError } from "../../api/error";
import { keys } from "../../api/keys";
import type { Config } from "../../api/types";
import { Page } from "../../app/Page";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { ConditionList } from "../../components/ConditionList";
import { Dialog } from "../../components/Dialog";
import { DiffView } from "../../components/DiffView";
import { ErrorState } from "../../components/ErrorState";
import { Facts } from "../../components/Facts";
import { Notice } from "../../components/Notice";
import { PageHeader } from "../../components/PageHeader";
import { Problem } from "../../components/Problem";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { toast } from "../../components/toast";
import { CodeEditor } from "../../editor/CodeEditor";
import { changesBetween } from "../../lib/changes";
import { editable, withVersionOf } from "../../lib/editable";
import { span } from "../../lib/time";
import detail from "../Detail.module.css";

const START = `apiVersion: kubeopencode.io/v1alpha1
kind: KubeOpenCodeConfig
metadata:
  name: cluster
spec:
  cleanup:
    ttlSecondsAfterFinished: 604800
    maxRetainedTasks: 1000
`;

/** The cluster-wide configuration. */
export default function ConfigPage() {
  const cache = useQueryClient();
  const config = useQuery({
    queryKey: keys.config,
    queryFn: ({ signal }) => call<Config>("/config", { signal }),
    retry: false,
  });
  const absent = ApiError.is(config.error, 404);
  const yaml = useQuery({
    queryKey: keys.configYaml,
    queryFn: ({ signal }) => callText("/config", { query: { output: "yaml" }, signal }),
    enabled: config.data !== undefined,
    staleTime: 0,
  });
  const [draft, setDraft] = useState<string | undefined>();
  const [reviewing, setReviewing] = useState(false);
  const put = useMutation({
    mutationFn: ({ dryRun }: { dryRun: boolean }) =>
      call<Config>("/config", {
        method: "PUT",
        yaml: withVersionOf(yaml.data ?? "", text),
        query: { dryRun: dryRun || undefined },
      }),
    onSuccess: (saved, { dryRun }) => {
      if (dryRun) return;
      cache.setQueryData(keys.config, saved);
      void cache.invalidateQueries({ queryKey: keys.config });
      void cache.invalidateQueries({ queryKey: keys.configYaml });
      setDraft(undefined);
      setReviewing(false);
      toast.done("Configuration saved.");
    },
  });

  const stored = absent ? "" : yaml.data === undefined ? undefined : editable(yaml.data);
  const text = draft ?? (absent ? START : (stored ?? ""));
  const changed = absent || (draft !== undefined && draft !== stored);
  const syntaxError = draft === undefined ? undefined : parseDocument(draft).errors[0]?.message;
  const header = (
    <PageHeader title="Configuration" sub="KubeOpenCodeConfig cluster: the settings of the whole installation." />
  );
  const failed = [config, yaml].find((query) => query.error && !absent);
  if (failed) {
    return (
      <Page>
        {header}
        <ErrorState error={failed.error} onRetry={() => failed.refetch()} />
      </Page>
    );
  }
  if (stored === undefined) {
    return (
      <Page>
        {header}
        <SkeletonBlock lines={10} label="Loading the configuration" />
      </Page>
    );
  }
  const data = config.data;
  return (
    <Page>
      {header}
      {absent && <Notice tone="idle">No configuration exists: built-in defaults apply. Save to create one.</Notice>}
      {data && (
        <div className={detail.cards}>
          <Card title="Summary">
            <Facts
              facts={[
                ["System image", data.systemImage?.image && <code>{data.systemImage.image}</code>],
                [
                  "Finished Tasks",
                  data.cleanup?.ttlSecondsAfterFinished !== undefined &&
                    `deleted after ${span(data.cleanup.ttlSecondsAfterFinished)}`,
                ],
                [
                  "Retention limit",
                  data.cleanup?.maxRetainedTasks !== undefined && `${data.cleanup.maxRetainedTasks} Tasks`,
                ],
                ["Proxy", data.proxy?.httpsProxy ?? data.proxy?.httpProxy],
                ["Cluster domain", data.clusterDomain],
              ]}
            />
          </Card>
          <Card title="Conditions">
            <ConditionList conditions={data.conditions} />
          </Card>
        </div>
      )}
      <Stack gap={3}>
        <CodeEditor
          label="YAML of the configuration"
          value={text}
          onValue={setDraft}
          invalid={syntaxError !== undefined}
          height="min(56vh, 560px)"
        />
        {syntaxError && <Problem error={syntaxError} />}
        <Stack row gap={2}>
          <Button
            variant="primary"
            disabled={!changed || syntaxError !== undefined}
            onClick={() => {
              setReviewing(true);
              put.mutate({ dryRun: true });
            }}
          >
            Review changes
          </Button>
          <Button disabled={draft === undefined} onClick={() => setDraft(undefined)}>
            Discard
          </Button>
        </Stack>
      </Stack>
      <Dialog
        title="Save the configuration?"
        open={reviewing}
        onClose={() => setReviewing(false)}
        wide
        actions={
          <>
            <Button onClick={() => setReviewing(false)}>Keep editing</Button>
            <Button
              variant="primary"
              busy={put.isPending}
              disabled={put.isError}
              onClick={() => put.mutate({ dryRun: false })}
            >
              Save
            </Button>
          </>
        }
      >
        <Stack gap={3}>
          <p>Applies to all new runs in every namespace.</p>
          <DiffView lines={changesBetween(stored, text)} label="Changes" />
          {put.error ? <Problem error={put.error} /> : null}
        </Stack>
      </Dialog>
    </Page>
  );
}
