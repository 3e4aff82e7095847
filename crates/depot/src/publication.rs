//! What names stored bytes: artefacts, the patch of a run, and its outputs.

use std::{collections::BTreeMap, sync::Arc};

use axum::{body::Body, extract::State};
use bytes::Bytes;
use domain::contract::{
    collect::{MOST_CONTENT_BYTES, MOST_FILES, MOST_OUTPUT_BYTES, MOST_OUTPUTS, MOST_PATCH_BYTES},
    depot::{MOST_PUBLICATION_BYTES, Stored},
};
use fileset::Manifest;
use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use store::{Digest, NewArtifact, Published};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    caller::{Caller, CallerOf},
    intake::{Intake, declared},
    refused::{Answer, Refused},
    routes::Segments,
    state::Shared,
};

/// Bytes of the body that names a patch.
const MOST_STORED_BYTES: u64 = 4 << 10;

/// A publication whose manifest can be that of its bytes.
pub(crate) struct Checked {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// As JSON.
    pub(crate) manifest: Vec<u8>,
}

/// A publication that was received, and its room in memory, which it has until it is stored.
pub(crate) struct InMemory {
    pub(crate) checked: Checked,
    pub(crate) room: OwnedSemaphorePermit,
}

/// [`domain::contract::depot::Publication`], without a tree of values for the manifest.
#[derive(Deserialize)]
struct Received<'a> {
    digest: String,
    bytes: u64,
    files: u64,
    #[serde(borrow)]
    manifest: &'a RawValue,
}

/// `POST /v1/artifacts/{name}`
pub(crate) async fn artifact(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    headers: HeaderMap,
    body: Body,
) -> Answer<StatusCode> {
    let lifetime = caller.artifact(&name)?.expire_after.and_then(api::Duration::nonzero);
    let InMemory { checked, room } = receive(&shared, &caller, &headers, body).await?;
    let Checked { digest, bytes, files, manifest } = checked;
    let expires = lifetime.map(|lifetime| {
        let lifetime = SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX);
        Timestamp::now().checked_add(lifetime).unwrap_or(Timestamp::MAX)
    });
    let artifact = NewArtifact { name: name.clone(), digest, bytes, files, manifest, expires };
    let published = shared.store.publish(&caller.run, artifact).await.map_err(|error| Refused::publication(&error))?;
    drop(room);
    if published == Published::New {
        tracing::info!(run = caller.run.record(), name, bytes, files, "artifact stored");
    }
    answer(&caller, published, &format!("the artifact '{name}'"))
}

/// `POST /v1/changes`
pub(crate) async fn changes(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    headers: HeaderMap,
    body: Body,
) -> Answer<StatusCode> {
    caller.may_keep_changes()?;
    let body = Intake::new(body, &headers, "the body", MOST_STORED_BYTES, shared.options.patience)?.whole().await?;
    let Stored { digest, bytes } = serde_json::from_slice(&body).map_err(|error| not_json(&error))?;
    let digest = digest_of(&digest)?;
    if bytes > MOST_PATCH_BYTES {
        return Err(Refused::too_large("the patch", MOST_PATCH_BYTES));
    }
    sent(&shared, &caller, &digest).await?;
    let published = shared.store.publish_patch(&caller.run, digest, bytes).await;
    answer(&caller, published.map_err(|error| Refused::publication(&error))?, "the patch of the changes")
}

/// `PUT /v1/outputs`
pub(crate) async fn outputs(
    State(shared): State<Arc<Shared>>,
    CallerOf(caller): CallerOf,
    headers: HeaderMap,
    body: Body,
) -> Answer<StatusCode> {
    let declared = caller.outputs()?;
    let most = MOST_OUTPUT_BYTES as u64;
    let body = Intake::new(body, &headers, "the outputs", most, shared.options.patience)?.whole().await?;
    // In the order of the keys, so that the same outputs are the same bytes.
    let outputs: BTreeMap<String, String> = serde_json::from_slice(&body).map_err(|error| not_json(&error))?;
    if outputs.len() > MOST_OUTPUTS {
        return Err(Refused::malformed(format!("there are more than {MOST_OUTPUTS} outputs")));
    }
    if let Some(key) = outputs.keys().find(|key| !declared.contains(key)) {
        return Err(caller.undeclared(&format!("the output '{key}'")));
    }
    let json = serde_json::to_vec(&outputs).map_err(|error| not_json(&error))?;
    let published = shared.store.put_outputs(&caller.run, json).await;
    answer(&caller, published.map_err(|error| Refused::publication(&error))?, "the outputs")
}

/// Reads and checks a publication of bytes that the caller's namespace sent.
pub(crate) async fn receive(shared: &Shared, caller: &Caller, headers: &HeaderMap, body: Body) -> Answer<InMemory> {
    let intake = Intake::new(body, headers, "the body", MOST_PUBLICATION_BYTES as u64, shared.options.patience)?;
    let room = shared.publication(declared(headers)).await?;
    let body = intake.whole().await?;
    // A large manifest takes a while, in which other requests would wait.
    let checked = tokio::task::spawn_blocking(move || check(&body).map(|checked| InMemory { checked, room }));
    let received = checked.await.map_err(|error| {
        tracing::error!(%error, "a publication could not be checked");
        Refused::unavailable("the publication could not be checked; try again")
    })??;
    sent(shared, caller, &received.checked.digest).await?;
    Ok(received)
}

/// Refuses bytes of other namespaces: a caller that knows their digest need not know them.
async fn sent(shared: &Shared, caller: &Caller, digest: &Digest) -> Answer<()> {
    let sent = shared.store.was_sent_by(caller.namespace(), digest).await;
    if sent.map_err(|error| Refused::store(&error))? { Ok(()) } else { Err(missing()) }
}

fn check(body: &Bytes) -> Answer<Checked> {
    let Received { digest, bytes, files, manifest } = serde_json::from_slice(body).map_err(|error| not_json(&error))?;
    let digest = digest_of(&digest)?;
    let manifest: Manifest = serde_json::from_str(manifest.get())
        .map_err(|error| Refused::malformed(format!("the manifest is not valid: {error}")))?;
    if manifest.bytes != bytes || manifest.files() != files {
        let message = format!(
            "the manifest is that of {} files in {} bytes, not of {files} files in {bytes} bytes",
            manifest.files(),
            manifest.bytes
        );
        return Err(Refused::malformed(message));
    }
    if manifest.content_bytes() > MOST_CONTENT_BYTES {
        return Err(Refused::too_large("the file set", MOST_CONTENT_BYTES));
    }
    if manifest.entries.len() as u64 > MOST_FILES {
        return Err(Refused::too_many_files(MOST_FILES));
    }
    // Written anew: what is stored is what was checked.
    let manifest = serde_json::to_vec(&manifest).map_err(|error| not_json(&error))?;
    Ok(Checked { digest, bytes, files, manifest })
}

/// The answer to a publication of `what`.
fn answer(caller: &Caller, published: Published, what: &str) -> Answer<StatusCode> {
    let (run, task) = (caller.run.epoch, &caller.task);
    match published {
        Published::New => Ok(StatusCode::CREATED),
        Published::Same => Ok(StatusCode::OK),
        Published::Other => Err(Refused::conflict(format!("{what} of run {run} of Task '{task}' is stored already"))),
        Published::Closed => Err(Refused::conflict(format!("run {run} of Task '{task}' is over"))),
        Published::Missing => Err(missing()),
    }
}

/// The bytes that are to be named are not there.
pub(crate) fn missing() -> Refused {
    Refused::malformed("no bytes of this digest and length are stored: send them first")
}

fn digest_of(text: &str) -> Answer<Digest> {
    Digest::parse(text).ok_or_else(|| Refused::malformed("the digest is not a SHA-256 in lowercase hexadecimal"))
}

fn not_json(error: &serde_json::Error) -> Refused {
    Refused::malformed(format!("the body is not what it should be: {error}"))
}

#[cfg(test)]
mod tests {
    use domain::contract::depot::{Publication, RefusalReason};
    use serde_json::{Value, json};

    use super::*;

    fn publication() -> Value {
        let manifest = json!({
            "version": 1, "bytes": 10, "frames": [{"at": 0, "offset": 0}],
            "entries": [{"path": "a", "modified": [1, 2], "kind": {"link": {"target": "b"}}}],
        });
        let publication = Publication { digest: "0".repeat(64), bytes: 10, files: 0, manifest };
        serde_json::to_value(publication).unwrap()
    }

    fn refusal(change: impl FnOnce(&mut Value)) -> Option<RefusalReason> {
        let mut publication = publication();
        change(&mut publication);
        check(&publication.to_string().into()).err().map(|refused| refused.reason())
    }

    #[test]
    fn a_publication_agrees_with_its_manifest() {
        assert_eq!(refusal(|_| ()), None);
        let malformed = Some(RefusalReason::Malformed);
        assert_eq!(refusal(|it| it["bytes"] = json!(11)), malformed);
        assert_eq!(refusal(|it| it["files"] = json!(1)), malformed);
        assert_eq!(refusal(|it| it["digest"] = json!("0".repeat(63))), malformed);
        assert_eq!(refusal(|it| it["digest"] = json!("A".repeat(64))), malformed);
        assert_eq!(refusal(|it| it["manifest"]["version"] = json!(9)), malformed);
        assert_eq!(refusal(|it| it["manifest"]["entries"][0]["path"] = json!("../a")), malformed);
        assert_eq!(refusal(|it| it["manifest"]["entries"][0]["kind"]["link"]["target"] = json!("/etc")), malformed);
        assert_eq!(refusal(|it| it["manifest"] = json!(null)), malformed);
        assert_eq!(refusal(|it| *it = json!([])), malformed);
    }

    #[test]
    fn what_is_stored_of_a_manifest_is_what_was_checked() {
        let mut sent = publication();
        let expected = sent["manifest"].to_string();
        sent["manifest"]["more"] = json!("text");
        let checked = check(&sent.to_string().into()).ok().unwrap();
        let stored: Value = serde_json::from_slice(&checked.manifest).unwrap();
        assert_eq!(stored, serde_json::from_str::<Value>(&expected).unwrap());
    }
}
