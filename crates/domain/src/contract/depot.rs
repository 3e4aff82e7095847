//! The protocol between Pods and the depot, which puts their files into the store.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `PUT /v1/blobs` | the bytes of a file set or a patch | [`Stored`]: the bytes are stored, and named by nothing yet |
//! | `POST /v1/artifacts/{name}` | [`Publication`] | 201: the artefact is published; 200: it was published before, the same; 409: another was, or the run is over |
//! | `POST /v1/caches/{name}?key=KEY` | [`Publication`] | 201: the entry is saved; 200: the key has an entry already, which stays |
//! | `POST /v1/changes` | [`Stored`] | 201, 200 or 409 as for an artefact |
//! | `PUT /v1/outputs` | a JSON object of strings | 201, 200 or 409 as for an artefact |
//! | `GET /v1/inputs/{task}/{artifact}` | | [`Found`]: the artefact of the last successful run of another Task |
//! | `GET /v1/inputs/{task}/{artifact}/content?digest=DIGEST` | | the bytes that were found, also if another run was successful since; without a digest, those of the last one |
//! | `GET /v1/caches/{name}?key=KEY&prefix=PREFIX&prefix=…` | | [`Found`]: the entry of the key, or the newest one of the first prefix that has one |
//! | `GET /v1/caches/{name}/content?key=KEY` | | the bytes of the entry of this key |
//!
//! Every request has the token of the Pod as bearer token; its audience is [`AUDIENCE`]. A request for bytes may be
//! redirected to a place that needs no token. Every other answer has a [`Refusal`] as body.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Audience of the tokens with which Pods talk to the depot.
pub const AUDIENCE: &str = "depot.kubeopencode.io";
/// Lifetime of these tokens, in seconds. The kubelet renews them.
pub const TOKEN_SECONDS: i64 = 3600;
/// Bytes of a publication, most of which is the manifest.
pub const MOST_PUBLICATION_BYTES: usize = 64 << 20;

/// Bytes that the depot has stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// SHA-256 in hexadecimal.
    pub digest: String,
    pub bytes: u64,
}

/// Names stored bytes as an artefact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Publication {
    /// SHA-256 of the stored bytes in hexadecimal, as computed by the sender.
    pub digest: String,
    pub bytes: u64,
    /// Number of files in the set.
    pub files: u64,
    /// The manifest of the file set, which lists its files with their digests.
    pub manifest: Value,
}

/// A stored file set that a Pod may fetch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The key of an entry of a cache; unset for an artefact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// SHA-256 of the bytes in hexadecimal.
    pub digest: String,
    pub bytes: u64,
    /// The manifest of the file set.
    pub manifest: Value,
}

/// Why the depot refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub reason: RefusalReason,
    /// One sentence for a person.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalReason {
    /// 401: no token, or one that is expired, of another audience or of no Pod.
    Unauthenticated,
    /// 403: the Pod belongs to no current run, or the run did not declare this.
    NotAllowed,
    /// 404: no such artefact.
    NotFound,
    /// 409: the run is over, a newer one exists, or other bytes have this name.
    Conflict,
    /// 413: more than the depot takes.
    TooLarge,
    /// 400: the body cannot be read or is not what its digest says.
    Malformed,
    /// 503: the store cannot be used now; try again.
    Unavailable,
    /// A word that this version does not know.
    #[serde(other)]
    Unknown,
}

impl RefusalReason {
    /// Whether the same request may succeed later.
    pub fn is_temporary(self) -> bool {
        self == Self::Unavailable
    }

    /// Status code of the answer.
    pub fn status(self) -> u16 {
        match self {
            Self::Unauthenticated => 401,
            Self::NotAllowed => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::Malformed | Self::Unknown => 400,
            Self::Unavailable => 503,
        }
    }
}
