import { Archive, Download } from "lucide-react";
import type { ReactNode } from "react";
import { ApiError } from "../../api/error";
import { type ArtifactPlace, archiveUrl, useArtifacts } from "../../api/results";
import type { Artifact, Task } from "../../api/types";
import { useAddress } from "../../app/address";
import { ArtifactBrowser } from "../../artifacts/ArtifactBrowser";
import { Ago } from "../../components/Ago";
import { buttonClass } from "../../components/Button";
import { Card } from "../../components/Card";
import { classes } from "../../components/classes";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { Select } from "../../components/Select";
import { SimpleTable } from "../../components/SimpleTable";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { bytes, count, sentence } from "../../lib/format";
import { isFinished } from "../../lib/phase";
import styles from "./TaskArtifacts.module.css";

/** The artifacts of the runs, and the files of one of them. Run, artifact and file are in the address. */
export function TaskArtifacts({ task }: { task: Task }) {
  const [params, change] = useAddress();
  const epoch = Number(params.get("run")) || undefined;
  const artifacts = useArtifacts(task, epoch);
  const choose = (name: string, path?: string) =>
    change((next) => {
      next.set("artifact", name);
      if (path === undefined) next.delete("file");
      else next.set("file", path);
    });
  const chooseRun = (run: string) =>
    change((next) => {
      if (run === "") next.delete("run");
      else next.set("run", run);
      next.delete("artifact");
      next.delete("file");
    });

  if (task.runEpoch === undefined) return <Nothing>The Task has not run yet.</Nothing>;
  const runs = task.runEpoch > 1 && (
    <Select
      aria-label="Run"
      className={styles.run}
      value={epoch === undefined ? "" : String(epoch)}
      options={[{ value: "", label: "Newest of all runs" }, ...runNumbers(task.runEpoch)]}
      onValue={chooseRun}
    />
  );
  if (artifacts.isLoading) return <SkeletonBlock lines={6} label="Loading the artifacts" />;
  if (ApiError.is(artifacts.error, 404)) return <Nothing>{sentence(artifacts.error.message)}</Nothing>;
  if (artifacts.error) return <ErrorState small error={artifacts.error} onRetry={() => artifacts.refetch()} />;
  const list = artifacts.data ?? [];
  const placeOf = (artifact: Artifact): ArtifactPlace => ({
    namespace: task.namespace,
    task: task.name,
    epoch: artifact.epoch,
    name: artifact.name,
  });
  const kept = list.filter((artifact) => !artifact.expired);
  const shown = kept.find((artifact) => artifact.name === params.get("artifact")) ?? kept[0];
  return (
    <Stack gap={4}>
      {list.length === 0 ? (
        <Nothing action={runs}>{missing(task, epoch)}</Nothing>
      ) : (
        <Card title="Artifacts" tools={runs} flush>
          <SimpleTable
            label="Artifacts"
            head={["Name", "Size", "Files", "Run", "Stored", "Kept until", "Download"]}
            wide={["Files", "Run", "Stored", "Download"]}
            rows={list.map((artifact) => ({
              key: `${artifact.epoch}/${artifact.name}`,
              cells: [
                artifact.expired ? (
                  artifact.name
                ) : (
                  <button
                    key="name"
                    type="button"
                    className={styles.name}
                    aria-pressed={artifact === shown}
                    onClick={() => choose(artifact.name)}
                  >
                    {artifact.name}
                  </button>
                ),
                <span key="size" className={styles.size}>
                  {bytes(artifact.bytes)}
                </span>,
                count(artifact.files),
                String(artifact.epoch),
                <Ago key="stored" at={artifact.storedAt} />,
                <Kept key="kept" artifact={artifact} />,
                !artifact.expired && (
                  <a
                    key="download"
                    className={classes(buttonClass("plain", true, true), styles.download)}
                    href={archiveUrl(placeOf(artifact))}
                    download={`${task.name}-${artifact.name}.tar.zst`}
                    aria-label={`Download ${artifact.name}`}
                    title={`Download ${artifact.name}`}
                  >
                    <Download size={15} />
                  </a>
                ),
              ],
            }))}
          />
        </Card>
      )}
      {shown && (
        <ArtifactBrowser
          key={`${shown.epoch}/${shown.name}/${shown.digest}`}
          place={placeOf(shown)}
          artifact={shown}
          path={shown.name === params.get("artifact") ? (params.get("file") ?? undefined) : undefined}
          onPath={(path) => choose(shown.name, path)}
        />
      )}
    </Stack>
  );
}

/** When an artifact will be removed, or when and why it was. */
function Kept({ artifact: { expired, expiresAt } }: { artifact: Artifact }) {
  if (expired) {
    return (
      <span className={styles.expired}>
        <span>
          Expired <Ago at={expired.at} />
        </span>
        <span className="quiet">{sentence(causeOf(expired.message))}</span>
      </span>
    );
  }
  return expiresAt ? <Ago at={expiresAt} /> : <span className="quiet">the Task is deleted</span>;
}

/** The cause in the sentence of the server, whose beginning is the time. */
function causeOf(message: string): string {
  return /^expired at \S+: (.*)$/.exec(message)?.[1] ?? message;
}

function runNumbers(newest: number): { value: string; label: string }[] {
  return Array.from({ length: newest }, (_, i) => ({ value: String(newest - i), label: `Run ${newest - i}` }));
}

function missing({ phase }: Task, epoch: number | undefined): string {
  if (epoch !== undefined) return `Run ${epoch} left no artifact.`;
  return isFinished(phase)
    ? "The Task left no artifact. The field artifacts of a Task or template names the files to keep."
    : "Artifacts appear when the run has ended and its files are stored.";
}

function Nothing({ children, action }: { children: string; action?: ReactNode }) {
  return (
    <EmptyState small title="No artifacts" icon={<Archive size={20} />} action={action}>
      {children}
    </EmptyState>
  );
}
