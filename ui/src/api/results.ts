import { useQuery } from "@tanstack/react-query";
import { call, objectPath, path, send, url } from "./client";
import { keys } from "./keys";
import type { Artifact, ArtifactFile, ArtifactFiles, Outputs, Task } from "./types";

/** What identifies an artifact. */
export interface ArtifactPlace {
  namespace: string;
  task: string;
  epoch: number;
  name: string;
}

function artifactPath({ namespace, task, name }: ArtifactPlace): string {
  return `${objectPath("tasks", namespace, task)}${path("artifacts", name)}`;
}

/** The artifacts of a run, or without a number the newest one of each name. */
export function useArtifacts(task: Task, epoch: number | undefined) {
  const { namespace, name, runEpoch, phase } = task;
  return useQuery({
    // All artifacts of a run are stored when it ends.
    queryKey: [...keys.artifacts(namespace, name), epoch ?? "newest", runEpoch, phase],
    queryFn: ({ signal }) =>
      call<{ artifacts: Artifact[] }>(`${objectPath("tasks", namespace, name)}/artifacts`, {
        query: { epoch },
        signal,
      }).then((body) => body.artifacts),
    enabled: runEpoch !== undefined,
    placeholderData: (before) => before,
    retry: false,
  });
}

export interface FilesQuery {
  prefix?: string;
  after?: string;
  limit?: number;
}

/** A page of the files of an artifact, sorted by the bytes of their names. */
export function fetchFiles(place: ArtifactPlace, query: FilesQuery, signal?: AbortSignal): Promise<ArtifactFiles> {
  return call<ArtifactFiles>(`${artifactPath(place)}/files`, { query: { epoch: place.epoch, ...query }, signal });
}

/** Address of the archive (.tar.zst). */
export function archiveUrl(place: ArtifactPlace): string {
  return url(artifactPath(place), { epoch: place.epoch });
}

/** Address of one file; with `download` a browser saves it. */
export function contentUrl(place: ArtifactPlace, file: string, download = false): string {
  return url(`${artifactPath(place)}/content`, { epoch: place.epoch, path: file, download: download || undefined });
}

/** Longer texts are cut in the preview. */
export const MAX_PREVIEW = 256 * 1024;

/** What the page can show of a file. */
export type Preview = { kind: "text"; text: string; cut: boolean } | { kind: "image" } | { kind: "binary" };

/** The beginning of a file. The server decides by its bytes whether it is a text or an image. */
export async function fetchPreview(place: ArtifactPlace, file: ArtifactFile, signal?: AbortSignal): Promise<Preview> {
  const size = file.size ?? 0;
  // An empty file has no range.
  if (size === 0) return { kind: "text", text: "", cut: false };
  const response = await send(`${artifactPath(place)}/content`, {
    query: { epoch: place.epoch, path: file.path },
    headers: { Range: `bytes=0-${MAX_PREVIEW - 1}` },
    signal,
  });
  const type = response.headers.get("Content-Type") ?? "";
  if (!type.startsWith("text/")) {
    await response.body?.cancel();
    return { kind: type.startsWith("image/") ? "image" : "binary" };
  }
  const bytes = (await response.arrayBuffer()).slice(0, MAX_PREVIEW);
  // `stream` leaves out a character that the cut divides.
  return { kind: "text", text: new TextDecoder().decode(bytes, { stream: true }), cut: size > MAX_PREVIEW };
}

export function usePreview(place: ArtifactPlace, file: ArtifactFile) {
  return useQuery({
    // The bytes under a digest never change.
    queryKey: keys.artifactFile(file.digest ?? file.path),
    queryFn: ({ signal }) => fetchPreview(place, file, signal),
    enabled: file.kind === "file",
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
}

/** All outputs of the run. The status of the Task leaves out long ones. */
export function useOutputs(task: Task, enabled: boolean) {
  const { namespace, name, runEpoch } = task;
  return useQuery({
    queryKey: keys.outputs(namespace, name, runEpoch),
    queryFn: ({ signal }) =>
      call<Outputs>(`${objectPath("tasks", namespace, name)}/outputs`, { query: { epoch: runEpoch }, signal }),
    enabled: enabled && runEpoch !== undefined,
    retry: false,
  });
}

/** The whole change as a patch that git applies, binary files included. */
export async function fetchPatch({ namespace, name, runEpoch }: Task): Promise<Blob> {
  const response = await send(`${objectPath("tasks", namespace, name)}/changes/patch`, { query: { epoch: runEpoch } });
  return response.blob();
}
