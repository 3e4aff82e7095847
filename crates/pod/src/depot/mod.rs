//! The client of the depot, for `prep` and the housekeeper.
//!
//! The token is read for each request, because the kubelet renews it, and it is sent to the depot alone: a redirect is
//! followed without it. Nothing is held in memory whole but answers, whose size is limited. A depot that does nothing
//! for `SILENCE` has failed; [`retry`] tries again.

mod download;
mod error;
pub mod retry;
mod upload;

use std::path::PathBuf;
use std::time::Duration;

use domain::contract::depot::{MOST_PUBLICATION_BYTES, Refusal, Stored};
use domain::contract::paths;
use egress::{Authorities, BodyError, TransferError, read_body};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::env::{self, Lookup, SettingError};

pub use error::DepotError;
pub use upload::Upload;

/// A depot that neither reads nor answers for this long is given up.
const SILENCE: Duration = Duration::from_mins(2);
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an answer that is not a manifest.
const MOST_ANSWER_BYTES: u64 = 64 << 10;
/// At this rate, in bytes a second, a publication must reach the depot.
const SLOWEST: u64 = 256 << 10;

/// Where the depot is, and how a Pod proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub url: Url,
    pub token_file: PathBuf,
    pub authorities: Authorities,
    /// See `SILENCE`.
    pub silence: Duration,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let expected = "the http:// or https:// URL of the depot";
        let url = env::url(env, env::DEPOT_URL, expected)?;
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            let problem = format!("{}: is not a protocol of the depot", url.scheme());
            return Err(SettingError::Invalid { name: env::DEPOT_URL, problem, expected });
        }
        Ok(Self {
            url,
            token_file: env::path(env, env::DEPOT_TOKEN_FILE, paths::DEPOT_TOKEN),
            authorities: crate::authorities::from_env(env),
            silence: SILENCE,
        })
    }
}

/// The depot.
#[derive(Clone, Debug)]
pub struct Depot {
    settings: Settings,
    /// Without a proxy: the depot is part of the platform.
    client: Client,
    /// For the places that the depot redirects to, with the proxies of the Pod.
    outside: Client,
}

/// A file set in the store, as [`domain::contract::depot::Found`] with a manifest that was read.
#[derive(Clone, Debug, Deserialize)]
pub struct FoundSet {
    /// The key of an entry of a cache.
    #[serde(default)]
    pub key: Option<String>,
    pub digest: String,
    pub bytes: u64,
    pub manifest: fileset::Manifest,
}

impl FoundSet {
    pub fn stored(&self) -> Stored {
        Stored { digest: self.digest.clone(), bytes: self.bytes }
    }
}

/// As [`domain::contract::depot::Publication`], without a second copy of the manifest in memory.
#[derive(Serialize)]
struct Publication<'a> {
    digest: &'a str,
    bytes: u64,
    files: u64,
    manifest: &'a fileset::Manifest,
}

/// What the depot did with a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    Now,
    /// It was there before. An entry of a cache may have other bytes.
    Before,
}

impl Depot {
    pub fn connect(settings: &Settings) -> Result<Self, egress::AuthoritiesError> {
        let client = || Ok::<_, egress::AuthoritiesError>(settings.authorities.http_client()?.connect_timeout(CONNECT));
        Ok(Self { settings: settings.clone(), client: client()?.no_proxy().build()?, outside: client()?.build()? })
    }

    /// The same depot, given up after at most this silence.
    #[must_use]
    pub fn with_silence(&self, silence: Duration) -> Self {
        let settings = Settings { silence: silence.min(self.settings.silence), ..self.settings.clone() };
        Self { settings, ..self.clone() }
    }

    /// Names stored bytes as an artefact of the run.
    pub async fn publish_artifact(&self, name: &str, packed: &fileset::Packed) -> Result<Published, DepotError> {
        self.publish(self.url(&["artifacts", name], &[]), packed).await
    }

    /// Names stored bytes as an entry of a cache.
    pub async fn publish_cache(
        &self,
        name: &str,
        key: &str,
        packed: &fileset::Packed,
    ) -> Result<Published, DepotError> {
        self.publish(self.url(&["caches", name], &[("key", key)]), packed).await
    }

    async fn publish(&self, url: Url, packed: &fileset::Packed) -> Result<Published, DepotError> {
        let digest = packed.digest.to_string();
        let publication =
            Publication { digest: &digest, bytes: packed.bytes, files: packed.files, manifest: &packed.manifest };
        let body = serde_json::to_vec(&publication).map_err(|error| DepotError::Unreadable(error.to_string()))?;
        if body.len() > MOST_PUBLICATION_BYTES {
            return Err(DepotError::ManyFiles(packed.files));
        }
        self.name(Method::POST, url, body).await
    }

    /// Names stored bytes as the patch of the whole change of the run.
    pub async fn publish_changes(&self, stored: &Stored) -> Result<Published, DepotError> {
        let body = serde_json::to_vec(stored).map_err(|error| DepotError::Unreadable(error.to_string()))?;
        self.name(Method::POST, self.url(&["changes"], &[]), body).await
    }

    /// Stores the outputs of the run, a JSON object.
    pub async fn put_outputs(&self, outputs: Vec<u8>) -> Result<Published, DepotError> {
        self.name(Method::PUT, self.url(&["outputs"], &[]), outputs).await
    }

    async fn name(&self, method: Method, url: Url, body: Vec<u8>) -> Result<Published, DepotError> {
        let limit = self.settings.silence + Duration::from_secs(body.len() as u64 / SLOWEST);
        let request = self.request(method, url)?.header("content-type", "application/json").body(body);
        let (status, _) = self.answer(request, limit, MOST_ANSWER_BYTES).await?;
        Ok(if status == StatusCode::CREATED { Published::Now } else { Published::Before })
    }

    /// The artefact of the last successful run of another Task.
    pub async fn find_input(&self, task: &str, artifact: &str) -> Result<FoundSet, DepotError> {
        self.find(self.url(&["inputs", task, artifact], &[])).await
    }

    /// The entry of a key, or the newest one of the first prefix that has one.
    pub async fn find_cache(&self, name: &str, key: &str, prefixes: &[String]) -> Result<FoundSet, DepotError> {
        let pairs = prefixes.iter().map(|prefix| ("prefix", prefix.as_str()));
        let pairs: Vec<(&str, &str)> = [("key", key)].into_iter().chain(pairs).collect();
        self.find(self.url(&["caches", name], &pairs)).await
    }

    async fn find(&self, url: Url) -> Result<FoundSet, DepotError> {
        let most = MOST_PUBLICATION_BYTES as u64 + MOST_ANSWER_BYTES;
        let (_, body) = self.answer(self.request(Method::GET, url)?, self.settings.silence, most).await?;
        read(&body)
    }

    /// The URL of the bytes of an artefact. With the digest that was found: the other Task may run again meanwhile.
    pub fn input_content(&self, task: &str, artifact: &str, digest: &str) -> Url {
        self.url(&["inputs", task, artifact, "content"], &[("digest", digest)])
    }

    /// The URL of the bytes of an entry of a cache.
    pub fn cache_content(&self, name: &str, key: &str) -> Url {
        self.url(&["caches", name, "content"], &[("key", key)])
    }

    fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.settings.url.clone();
        // `Settings` refuses a URL that has no path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    fn request(&self, method: Method, url: Url) -> Result<RequestBuilder, DepotError> {
        let path = &self.settings.token_file;
        let token = std::fs::read_to_string(path).map_err(|source| DepotError::Token { path: path.clone(), source })?;
        Ok(self.client.request(method, url).bearer_auth(token.trim()))
    }

    /// Sends a request and reads the answer to its end within a time limit.
    async fn answer(
        &self,
        request: RequestBuilder,
        limit: Duration,
        most: u64,
    ) -> Result<(StatusCode, Vec<u8>), DepotError> {
        let whole = async {
            let response = request.send().await.map_err(|error| failed(&error))?;
            let status = response.status();
            Ok((status, accepted(response, most).await?))
        };
        tokio::time::timeout(limit, whole).await.map_err(|_| DepotError::Silent(limit))?
    }
}

/// The body of an answer, or the reason of a refusal.
async fn accepted(response: Response, most: u64) -> Result<Vec<u8>, DepotError> {
    let status = response.status();
    let most = if status.is_success() { most } else { MOST_ANSWER_BYTES };
    let mut body = Vec::new();
    let read = read_body(response, most, |piece| {
        body.extend_from_slice(piece);
        Ok(())
    });
    match read.await {
        Ok(_) if status.is_success() => Ok(body),
        Ok(_) => Err(refused(status, &body)),
        Err(BodyError::Transfer(error)) => Err(DepotError::Transfer(error)),
        Err(BodyError::TooLong(_)) if !status.is_success() => Err(refused(status, &[])),
        Err(error) => Err(DepotError::Unreadable(error.to_string())),
    }
}

/// An answer without a [`Refusal`] comes from a proxy, or from a program that is not the depot.
fn refused(status: StatusCode, body: &[u8]) -> DepotError {
    match serde_json::from_slice(body) {
        Ok(Refusal { reason, message }) => {
            DepotError::Refused { reason, message: message.chars().take(error::MOST_MESSAGE).collect() }
        }
        Err(_) => DepotError::Status(status.as_u16()),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, DepotError> {
    serde_json::from_slice(body).map_err(|error| DepotError::Unreadable(error.to_string()))
}

fn failed(error: &reqwest::Error) -> DepotError {
    DepotError::Transfer(TransferError::from(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    fn depot(url: &str) -> Depot {
        Depot::connect(&Settings::from_env(&of(&[(env::DEPOT_URL, url)])).unwrap()).unwrap()
    }

    #[test]
    fn names_and_keys_cannot_change_the_path() {
        let depot = depot("http://depot:8085/base/");
        let check =
            |url: &Url, expected: &str| assert_eq!(url.as_str(), format!("http://depot:8085/base/v1/{expected}"));
        check(&depot.input_content("build", "dist", "0a"), "inputs/build/dist/content?digest=0a");
        check(&depot.input_content("a/b", "../x?y", "0"), "inputs/a%2Fb/..%2Fx%3Fy/content?digest=0");
        check(&depot.cache_content("go", "a b&key=c#é"), "caches/go/content?key=a+b%26key%3Dc%23%C3%A9");
    }

    #[test]
    fn only_http_reaches_the_depot() {
        for url in ["", "depot", "ftp://depot/", "unix:/run/depot", "data:x"] {
            assert!(Settings::from_env(&of(&[(env::DEPOT_URL, url)])).is_err(), "{url}");
        }
        let settings = Settings::from_env(&of(&[(env::DEPOT_URL, "https://depot")])).unwrap();
        assert_eq!(settings.token_file.to_str(), Some("/var/run/secrets/kubeopencode.io/depot/token"));
    }

    #[test]
    fn a_publication_is_that_of_the_contract() {
        let (mut archive, root) = (Vec::new(), tempfile::tempdir().unwrap());
        std::fs::write(root.path().join("a"), "x").unwrap();
        let patterns = fileset::Patterns::parse(&["**"]).unwrap();
        let limits = fileset::Limits { files: 10, bytes: 10 };
        let packed = fileset::pack(root.path(), &patterns, &[], limits, &mut archive).unwrap();
        let digest = packed.digest.to_string();
        let ours =
            Publication { digest: &digest, bytes: packed.bytes, files: packed.files, manifest: &packed.manifest };
        let theirs = domain::contract::depot::Publication {
            digest: digest.clone(),
            bytes: archive.len() as u64,
            files: 1,
            manifest: serde_json::to_value(&packed.manifest).unwrap(),
        };
        assert_eq!(serde_json::to_value(&ours).unwrap(), serde_json::to_value(&theirs).unwrap());
        let found = domain::contract::depot::Found {
            key: Some("k".to_owned()),
            digest: digest.clone(),
            bytes: packed.bytes,
            manifest: theirs.manifest,
        };
        let found: FoundSet = read(&serde_json::to_vec(&found).unwrap()).unwrap();
        assert_eq!((found.key.as_deref(), found.manifest == packed.manifest), (Some("k"), true));
        assert_eq!(found.stored(), Stored { digest, bytes: packed.bytes });
    }
}
