//! What runs leave: artefacts and their files, the patch of the changes, outputs. Whoever may read the log of a Task may
//! read them.

mod content;
mod page;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::Task;
use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse as _, Response},
};
use fileset::{Entry, Kind, Manifest, Part};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, header};
use serde::Deserialize;
use store::{Artifact, Owner, Run, Store};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    edge::{
        download::{Download, HEAD, Media, Wanted},
        extract::{At, Params, Part as Segment},
    },
    error::{Answer, ApiError},
    live::logs,
    state::Server,
    wire::{ArtifactFiles, ArtifactResponse, Artifacts, ErrorBody, Outputs, bytes_of},
};
use page::{FilesQuery, Page};

/// Runs that are searched for a patch or for outputs, the newest first.
const SEARCHED: i64 = 100;
/// Memory for manifests of all requests, in MiB.
const MEMORY: u32 = 192;
/// How long a request waits for memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes in memory of a byte of a manifest, as JSON and parsed.
const PARSED: u64 = 4;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(archive))
        .routes(routes!(manifest))
        .routes(routes!(list_files))
        .routes(routes!(content))
        .routes(routes!(patch))
        .routes(routes!(outputs))
}

/// Bounds the memory for manifests, which are as large as their artefacts have files, links and directories.
#[derive(Clone, Debug)]
pub(crate) struct Manifests(Arc<Semaphore>);

impl Default for Manifests {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MEMORY as usize)))
    }
}

impl Manifests {
    /// Room for a manifest of this length, as JSON and parsed. A request waits for others to end.
    async fn room(&self, bytes: u64) -> Answer<OwnedSemaphorePermit> {
        let needed = u32::try_from(1 + bytes.saturating_mul(PARSED) / (1 << 20)).unwrap_or(MEMORY).min(MEMORY);
        let room = tokio::time::timeout(PATIENCE, Arc::clone(&self.0).acquire_many_owned(needed)).await;
        let room = room.map_err(|_| ApiError::unavailable("many large artifacts are being read; try again"))?;
        room.map_err(|error| ApiError::internal("no manifest can be read", &error))
    }
}

/// Which run.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct EpochQuery {
    /// Which run, the first being 1; the newest one that has it when unset.
    #[param(minimum = 1)]
    epoch: Option<i64>,
}

/// Which file of an artefact.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct ContentQuery {
    /// Which run, the first being 1; the newest one that has it when unset.
    #[param(minimum = 1)]
    epoch: Option<i64>,
    /// `path` of the file in the list.
    path: String,
    /// A browser saves the file, even if it could show it.
    download: Option<bool>,
}

/// What the runs of a Task left, by name: of each artefact the one of the newest run.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/artifacts", operation_id = "listArtifacts",
    tag = "tasks", params(("namespace" = String, Path), ("name" = String, Path), EpochQuery),
    responses((status = 200, body = Artifacts)))]
async fn list(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(query): Params<EpochQuery>,
) -> Answer<Json<Artifacts>> {
    let results = Results::of(&server, &caller, &at, query.epoch).await?;
    let all = results.store.artifacts(&results.task).await.map_err(|error| unreadable(&error))?;
    let artifacts = newest(all, query.epoch).into_values().map(ArtifactResponse::from).collect();
    Ok(Json(Artifacts { artifacts }))
}

/// The archive of an artefact: a tar, compressed by zstd.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/artifacts/{artifact}", operation_id = "getArtifact",
    tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), ("artifact" = String, Path), EpochQuery,
        ("Range" = Option<String>, Header, description = "One range of bytes")),
    responses((status = 200, body = String, content_type = "application/zstd"),
        (status = 206, body = String, content_type = "application/zstd", description = "The range"),
        (status = 304, description = "The caller has it already"),
        (status = 416, body = ErrorBody, description = "The range is outside of the bytes")))]
async fn archive(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Segment(name): Segment,
    Params(query): Params<EpochQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let results = Results::of(&server, &caller, &at, query.epoch).await?;
    let artifact = results.artifact(&name, query.epoch).await?;
    let file_name = format!("{}-{name}.tar.zst", at.name);
    let download = Download {
        bytes: artifact.bytes,
        digest: artifact.digest.as_str(),
        media: Media::Archive,
        name: &file_name,
        attachment: true,
    };
    let wanted = Wanted::of(&headers, download.bytes, download.digest);
    let body = match wanted.range(download.bytes) {
        Some(range) => Some(read(&results.store, &artifact.digest, range).await?),
        None => None,
    };
    Ok(download.respond(&wanted, body))
}

/// The manifest of an artefact: its files with their digests and their places in the archive.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/artifacts/{artifact}/manifest",
    operation_id = "getArtifactManifest", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), ("artifact" = String, Path), EpochQuery),
    responses((status = 200, body = serde_json::Value)))]
async fn manifest(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Segment(name): Segment,
    Params(query): Params<EpochQuery>,
) -> Answer<Response> {
    let results = Results::of(&server, &caller, &at, query.epoch).await?;
    let artifact = results.artifact(&name, query.epoch).await?;
    let (bytes, room) = results.manifest_bytes(&server, &artifact).await?;
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_LENGTH, bytes.len().to_string())];
    // A slow reader keeps the room, because it keeps the bytes.
    let body = stream::iter([Ok::<_, std::io::Error>(Bytes::from(bytes))]).chain(stream::poll_fn(move |_| {
        let _ = &room;
        std::task::Poll::Ready(None)
    }));
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The files of an artefact, sorted by the bytes of their names.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/artifacts/{artifact}/files",
    operation_id = "listArtifactFiles", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), ("artifact" = String, Path), FilesQuery),
    responses((status = 200, body = ArtifactFiles)))]
async fn list_files(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Segment(name): Segment,
    Params(query): Params<FilesQuery>,
) -> Answer<Json<ArtifactFiles>> {
    let page = Page::read(&query)?;
    let results = Results::of(&server, &caller, &at, query.epoch).await?;
    let artifact = results.artifact(&name, query.epoch).await?;
    results.with_manifest(&server, &artifact, move |manifest| Json(page.of(&manifest.entries))).await
}

/// One file of an artefact. A browser shows text and images, and saves everything else.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/artifacts/{artifact}/content",
    operation_id = "getArtifactFile", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), ("artifact" = String, Path), ContentQuery,
        ("Range" = Option<String>, Header, description = "One range of bytes")),
    responses((status = 200, content((String = "text/plain"), (String = "application/octet-stream"),
            (String = "image/png"), (String = "image/jpeg"), (String = "image/gif"), (String = "image/webp"))),
        (status = 206, description = "The range", content((String = "text/plain"),
            (String = "application/octet-stream"), (String = "image/png"), (String = "image/jpeg"),
            (String = "image/gif"), (String = "image/webp"))),
        (status = 304, description = "The caller has it already"),
        (status = 416, body = ErrorBody, description = "The range is outside of the bytes")))]
async fn content(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Segment(name): Segment,
    Params(query): Params<ContentQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let results = Results::of(&server, &caller, &at, query.epoch).await?;
    let artifact = results.artifact(&name, query.epoch).await?;
    let path = bytes_of(&query.path).ok_or_else(|| ApiError::bad_parameter("path", "the path has invalid digits"))?;
    let found = results
        .with_manifest(&server, &artifact, move |manifest| {
            let at = manifest.entries.binary_search_by(|entry| entry.path.as_bytes().cmp(&path[..])).ok()?;
            manifest.entries.get(at).map(|entry| File::of(&manifest, entry, &headers))
        })
        .await?;
    let file =
        found.ok_or_else(|| ApiError::not_found(format!("artifact '{name}' has no file '{}'", query.path)))??;
    let head: Result<Vec<Bytes>, _> = content::read(&results.store, &artifact.digest, file.head).try_collect().await;
    let head = head.map_err(|error| ApiError::internal("the file cannot be read", &error))?.concat();
    let download = Download {
        bytes: file.bytes,
        digest: &file.digest,
        media: Media::of(&head, file.bytes),
        name: &query.path,
        attachment: query.download.unwrap_or_default(),
    };
    let body = file.part.map(|part| content::read(&results.store, &artifact.digest, part));
    Ok(download.respond(&file.wanted, body))
}

/// A file of an artefact, and what a request wants of it.
struct File {
    bytes: u64,
    digest: String,
    wanted: Wanted,
    /// Its beginning, which decides on its type.
    head: Part,
    /// Unset if nothing is to be sent.
    part: Option<Part>,
}

impl File {
    fn of(manifest: &Manifest, entry: &Entry, headers: &HeaderMap) -> Answer<Self> {
        let Kind::File { bytes, sha256, .. } = entry.kind else { return Err(ApiError::not_found(no_file(entry))) };
        let digest = sha256.to_string();
        let wanted = Wanted::of(headers, bytes, &digest);
        let part = |range| {
            let part = manifest.part(entry, range);
            part.map_err(|error| ApiError::internal("the file cannot be read", &error))
        };
        let head = part(0..HEAD.min(bytes))?;
        Ok(Self { bytes, digest, head, part: wanted.range(bytes).map(part).transpose()?, wanted })
    }
}

/// The whole change of a run, as a patch that git applies. Binary files are in it.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/changes/patch", operation_id = "getPatch",
    tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), EpochQuery,
        ("Range" = Option<String>, Header, description = "One range of bytes")),
    responses((status = 200, body = String, content_type = "text/x-diff"),
        (status = 206, body = String, content_type = "text/x-diff", description = "The range"),
        (status = 304, description = "The caller has it already"),
        (status = 416, body = ErrorBody, description = "The range is outside of the bytes")))]
async fn patch(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(query): Params<EpochQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let results = Results::of(&server, &caller, &at, query.epoch).await?;
    let mut found = None;
    for run in results.runs(query.epoch) {
        let patch = results.store.patch(&run).await.map_err(|error| unreadable(&error))?;
        if let Some(patch) = patch {
            let expired = patch.expired.is_some();
            found = found.filter(|_| expired).or(Some((run.epoch, patch)));
            if !expired {
                break;
            }
        }
    }
    let (epoch, patch) = found.ok_or_else(|| ApiError::not_found("no patch is stored for this run"))?;
    if let Some(expiry) = patch.expired {
        return Err(ApiError::not_found(format!("the patch of run {epoch} {expiry}")));
    }
    let file_name = format!("{}-{epoch}.patch", at.name);
    let download = Download {
        bytes: patch.bytes,
        digest: patch.digest.as_str(),
        media: Media::Patch,
        name: &file_name,
        attachment: true,
    };
    let wanted = Wanted::of(&headers, download.bytes, download.digest);
    let body = match wanted.range(download.bytes) {
        Some(range) => Some(read(&results.store, &patch.digest, range).await?),
        None => None,
    };
    Ok(download.respond(&wanted, body))
}

/// All outputs of a run; none is not an error.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/outputs", operation_id = "getOutputs", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), EpochQuery), responses((status = 200, body = Outputs)))]
async fn outputs(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(query): Params<EpochQuery>,
) -> Answer<Json<Outputs>> {
    let results = Results::of(&server, &caller, &at, query.epoch).await?;
    for run in results.runs(query.epoch) {
        if let Some(json) = results.store.outputs(&run).await.map_err(|error| unreadable(&error))? {
            let outputs = serde_json::from_slice(&json);
            let outputs = outputs.map_err(|error| ApiError::internal("the outputs cannot be read", &error))?;
            return Ok(Json(Outputs { epoch: Some(run.epoch), outputs }));
        }
    }
    Ok(Json(Outputs::default()))
}

/// Size of the stored patch of the Task's current run; `None` if there is none to download.
pub(super) async fn patch_bytes(server: &Server, task: &Task) -> Answer<Option<u64>> {
    let epoch = task.status.as_ref().and_then(|status| status.run_epoch);
    let (Some(store), Some(task), Some(epoch)) = (&server.options.results, logs::owner(task), epoch) else {
        return Ok(None);
    };
    let patch = store.patch(&Run { task, epoch }).await.map_err(|error| unreadable(&error))?;
    Ok(patch.filter(|patch| patch.expired.is_none()).map(|patch| patch.bytes))
}

/// What the runs of a Task left.
struct Results {
    store: Store,
    task: Owner,
    /// The number of the newest run.
    newest: i64,
}

impl Results {
    /// Refuses a caller who may not read the log of the Task.
    async fn of(server: &Server, caller: &Caller, at: &At, epoch: Option<i64>) -> Answer<Self> {
        if epoch.is_some_and(|epoch| epoch < 1) {
            return Err(ApiError::bad_parameter("epoch", "the first run is 1"));
        }
        let (task, _): (Task, _) = logs::readable(server, caller, at).await?;
        let store = server.options.results.clone().ok_or_else(|| {
            ApiError::not_found("this server has no store, so it keeps no artifacts, outputs and patches of runs")
        })?;
        let owner = logs::owner(&task).ok_or_else(|| ApiError::not_found("this Task cannot have stored anything"))?;
        let newest = task.status.as_ref().and_then(|status| status.run_epoch).unwrap_or_default();
        Ok(Self { store, task: owner, newest })
    }

    /// The runs to look into, the newest first.
    fn runs(&self, epoch: Option<i64>) -> impl Iterator<Item = Run> {
        let (first, last) = match epoch {
            Some(epoch) => (epoch, epoch),
            None => ((self.newest - SEARCHED + 1).max(1), self.newest),
        };
        (first..=last).rev().map(|epoch| Run { task: self.task.clone(), epoch })
    }

    /// An artefact whose bytes are there.
    async fn artifact(&self, name: &str, epoch: Option<i64>) -> Answer<Artifact> {
        let all = self.store.artifacts(&self.task).await.map_err(|error| unreadable(&error))?;
        let artifact = newest(all, epoch).remove(name).ok_or_else(|| {
            let of = epoch.map_or_else(|| "this Task".to_owned(), |epoch| format!("run {epoch} of this Task"));
            ApiError::not_found(format!("{of} has no artifact '{name}'"))
        })?;
        match artifact.expired {
            Some(expiry) => Err(ApiError::not_found(format!("artifact '{name}' of run {} {expiry}", artifact.epoch))),
            None => Ok(artifact),
        }
    }

    /// The manifest of an artefact, and its room in memory.
    async fn manifest_bytes(&self, server: &Server, artifact: &Artifact) -> Answer<(Vec<u8>, OwnedSemaphorePermit)> {
        let run = Run { task: self.task.clone(), epoch: artifact.epoch };
        let expired = || ApiError::not_found(format!("artifact '{}' expired just now", artifact.name));
        let blob = self.store.manifest_blob(&run, &artifact.name).await.map_err(|error| unreadable(&error))?;
        let room = server.manifests.room(blob.ok_or_else(expired)?.bytes).await?;
        let bytes = self.store.manifest(&run, &artifact.name).await.map_err(|error| unreadable(&error))?;
        Ok((bytes.ok_or_else(expired)?, room))
    }

    /// What `look` finds in the manifest of an artefact.
    async fn with_manifest<T: Send + 'static>(
        &self,
        server: &Server,
        artifact: &Artifact,
        look: impl FnOnce(Manifest) -> T + Send + 'static,
    ) -> Answer<T> {
        let (bytes, room) = self.manifest_bytes(server, artifact).await?;
        let looked = tokio::task::spawn_blocking(move || {
            let manifest = serde_json::from_slice(&bytes);
            drop(bytes);
            let found = manifest.map(look);
            drop(room);
            found
        });
        let looked = looked.await.map_err(|error| ApiError::internal("the manifest cannot be read", &error))?;
        looked.map_err(|error| ApiError::internal("the manifest cannot be read", &error))
    }
}

/// Of each name the artefact of the newest run, or of `epoch`. One that expired counts only if all of this name did.
fn newest(all: Vec<Artifact>, epoch: Option<i64>) -> BTreeMap<String, Artifact> {
    let mut found: BTreeMap<String, Artifact> = BTreeMap::new();
    for artifact in all.into_iter().filter(|artifact| epoch.is_none_or(|epoch| epoch == artifact.epoch)) {
        let rank = |artifact: &Artifact| (artifact.expired.is_none(), artifact.epoch);
        if found.get(&artifact.name).is_none_or(|known| rank(known) < rank(&artifact)) {
            found.insert(artifact.name.clone(), artifact);
        }
    }
    found
}

fn no_file(entry: &Entry) -> String {
    match &entry.kind {
        Kind::Link { target } => format!("'{}' is a symbolic link to '{target}'", entry.path),
        _ => format!("'{}' is an empty directory", entry.path),
    }
}

/// Bytes of a blob.
async fn read(
    store: &Store,
    digest: &store::Digest,
    range: std::ops::Range<u64>,
) -> Answer<impl Stream<Item = Result<Bytes, store::Error>> + Send + 'static> {
    let bytes = store.read_blob(digest, range).await.map_err(|error| unreadable(&error))?;
    Ok(content::logged(bytes))
}

fn unreadable(error: &store::Error) -> ApiError {
    match error {
        store::Error::NoBlob(_) => ApiError::not_found("its bytes are not in the store any more"),
        error => ApiError::internal("the store cannot be read", error),
    }
}

#[cfg(test)]
mod tests {
    use fileset::{LinkTarget, Modified, Name};
    use store::{ArtifactExpiry, ArtifactExpiryCause};

    use super::*;

    fn artifact(epoch: i64, name: &str, expired: bool) -> Artifact {
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let expired = expired.then_some(ArtifactExpiry { at, cause: ArtifactExpiryCause::Age });
        Artifact {
            epoch,
            name: name.to_owned(),
            digest: store::Digest::of(b""),
            bytes: 0,
            files: 0,
            stored: at,
            expires: None,
            expired,
        }
    }

    #[test]
    fn the_newest_run_whose_artefact_is_there_counts() {
        let all = || {
            vec![
                artifact(1, "dist", false),
                artifact(1, "old", true),
                artifact(2, "dist", false),
                artifact(2, "old", true),
                artifact(3, "dist", true),
            ]
        };
        let found = |epoch| -> Vec<(String, i64)> {
            newest(all(), epoch).into_iter().map(|(name, artifact)| (name, artifact.epoch)).collect()
        };
        assert_eq!(found(None), [("dist".to_owned(), 2), ("old".to_owned(), 2)]);
        assert_eq!(found(Some(1)), [("dist".to_owned(), 1), ("old".to_owned(), 1)]);
        assert_eq!(found(Some(3)), [("dist".to_owned(), 3)]);
        assert_eq!(found(Some(4)), []);
    }

    #[tokio::test(start_paused = true)]
    async fn the_room_of_a_manifest_is_that_of_its_bytes() {
        let manifests = Manifests::default();
        let small = manifests.room(100).await.unwrap();
        assert_eq!(small.num_permits(), 1);
        // One of links alone, which are no files.
        let large = manifests.room(20 << 20).await.unwrap();
        assert_eq!(large.num_permits(), 81);
        assert!(manifests.room(64 << 20).await.is_err(), "it has to wait");
        drop((small, large));
        assert_eq!(manifests.room(64 << 20).await.unwrap().num_permits(), MEMORY as usize);
    }

    #[test]
    fn what_is_no_file_says_what_it_is() {
        let kind = Kind::Link { target: LinkTarget::new("b\x1b").unwrap() };
        let mut entry = Entry { path: Name::new("a").unwrap(), modified: Modified::default(), kind };
        assert_eq!(no_file(&entry), r"'a' is a symbolic link to 'b\u{1b}'");
        entry.kind = Kind::Directory;
        assert_eq!(no_file(&entry), "'a' is an empty directory");
    }
}
