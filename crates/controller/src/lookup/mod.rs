//! Look-ups outside the cluster for reconcilers: digests of images, commits of Git repositories, versions of npm packages.
//! Every answer is bounded in size and time, and comes from an address that the policy of [`egress`] allows.

mod git;
pub mod route;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use domain::registry::{Challenge, ImageReference, commit_listed, commit_of, npm_version, package};
use egress::{BodyError, Credentials, Loopback, Repository, Route, TransferError, Transport, check_url, read_body};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header};
use serde_json::Value;

/// A sidecar may proxy requests of the controller. Nothing else listens on loopback but our own metrics.
const LOOPBACK: Loopback = Loopback::Allowed;

/// Time limit of one request or git command.
const LIMIT: Duration = Duration::from_secs(30);
/// Largest answer in bytes. The refs of very large repositories and the versions of old packages take megabytes.
const MAX_BYTES: u64 = 64 << 20;
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
/// npm's abbreviated metadata: only the fields that an installation needs.
const NPM_SHORT: &str = "application/vnd.npm.install-v1+json";

/// Why a look-up failed. The texts contain no credentials.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer.
    #[error("no answer from {host}: {problem}")]
    Unreachable { host: String, problem: String },
    /// An HTTP status other than success.
    #[error("{host} answered {status}{}", advice(*status))]
    Refused { host: String, status: StatusCode },
    /// The host has no such image, commit or package.
    #[error("{0}")]
    Missing(String),
    /// The address, or a tool that the look-up needs, cannot be used.
    #[error("{0}")]
    Unsupported(String),
    /// The address policy forbids the address.
    #[error("{0}; use another address")]
    Forbidden(String),
}

fn advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": check secretRef",
        StatusCode::NOT_FOUND => ": check the name",
        _ => "",
    }
}

/// User name and password of an image registry.
#[derive(Clone, Default)]
pub struct Login {
    pub username: String,
    /// Password or token.
    pub password: String,
}

/// Looks up digests, commits and versions. By default it uses the proxy settings of this process.
///
/// The HTTP client is created when it is first needed: it loads all certificates of the system into memory.
#[derive(Clone, Debug, Default)]
pub struct Lookup(Arc<OnceLock<Client>>);

impl Lookup {
    fn client(&self) -> Result<&Client, Error> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let client = build(&Route::default())?;
        Ok(self.0.get_or_init(|| client))
    }

    /// A look-up through `route`.
    pub fn through(&self, route: &Route) -> Result<Self, Error> {
        if *route == Route::default() {
            return Ok(self.clone());
        }
        Ok(Self(Arc::new(OnceLock::from(build(route)?))))
    }

    /// The digest of an image.
    pub async fn image_digest(&self, image: &str, login: Option<&Login>) -> Result<String, Error> {
        let place = ImageReference::parse(image)
            .ok_or_else(|| Error::Unsupported(format!("'{image}' is not the name of an image")))?;
        let url = place.manifest_url();
        let mut answer = send(self.manifest(&url)?).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            let refused = || Error::Refused { host: place.registry.clone(), status: StatusCode::UNAUTHORIZED };
            let wanted = challenge(&answer).ok_or_else(refused)?;
            let request = self.manifest(&url)?;
            answer = send(match (wanted, login) {
                (Challenge::Basic, None) => return Err(refused()),
                (Challenge::Basic, Some(login)) => request.basic_auth(&login.username, Some(&login.password)),
                (Challenge::Bearer { realm, service, scope }, login) => {
                    let query = [("service", service), ("scope", scope)];
                    let token = self.registry_token(&realm, &query, login).await?;
                    request.bearer_auth(token.ok_or_else(refused)?)
                }
            })
            .await?;
        }
        let answer = accepted(answer)?;
        let digest = answer.headers().get("docker-content-digest").and_then(|value| value.to_str().ok());
        digest.map(str::to_owned).ok_or_else(|| Error::Missing(format!("{} returned no digest", place.registry)))
    }

    fn manifest(&self, url: &str) -> Result<RequestBuilder, Error> {
        Ok(self.client()?.head(url).header(header::ACCEPT, MANIFESTS))
    }

    async fn registry_token(
        &self,
        realm: &str,
        query: &[(&str, Option<String>)],
        login: Option<&Login>,
    ) -> Result<Option<String>, Error> {
        let query: Vec<_> = query.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect();
        let mut request = self.client()?.get(realm).query(&query);
        if let Some(login) = login {
            request = request.basic_auth(&login.username, Some(&login.password));
        }
        let answer = accepted(send(request).await?)?;
        let token: Value = serde_json::from_slice(&body(answer).await?).unwrap_or_default();
        let token = token["token"].as_str().or_else(|| token["access_token"].as_str());
        Ok(token.map(str::to_owned))
    }

    /// The commit of a ref.
    pub async fn commit(&self, address: &str, reference: &str, credentials: &Credentials) -> Result<String, Error> {
        let missing = || Error::Missing(format!("the repository has no '{reference}'"));
        let unsupported = || {
            let advice = "the repository cannot be looked at: use https://, http://, ssh:// or git@host:path";
            Error::Unsupported(advice.into())
        };
        let repository = Repository::parse(address, false).map_err(|_| unsupported())?;
        match &repository.transport {
            Transport::Ssh { host } => {
                let listing = git::list(&repository, host, credentials, &|name| std::env::var_os(name)).await?;
                commit_listed(&listing, reference).ok_or_else(missing)
            }
            Transport::Http { .. } => {
                let refs = self.advertised_refs(&repository, credentials).await?;
                commit_of(&refs, reference).ok_or_else(missing)
            }
            Transport::File => Err(unsupported()),
        }
    }

    /// The refs of a repository, in git's wire format.
    async fn advertised_refs(&self, repository: &Repository, credentials: &Credentials) -> Result<Vec<u8>, Error> {
        let url = format!("{}/info/refs", repository.url.trim_end_matches('/'));
        let mut request = self.client()?.get(&url).query(&[("service", "git-upload-pack")]);
        if let Some((user, password)) = credentials.login() {
            request = request.basic_auth(user, Some(password));
        } else if let Some((user, password)) = &repository.userinfo {
            request = request.basic_auth(user, Some(password));
        }
        body(accepted(send(request).await?)?).await
    }

    /// The version of a package that npm would install.
    pub async fn npm_version(&self, registry: &str, spec: &str) -> Result<String, Error> {
        let (name, wanted) = package(spec);
        let url = format!("{}/{}", registry.trim_end_matches('/'), name.replace('/', "%2f"));
        let request = self.client()?.get(&url).header(header::ACCEPT, NPM_SHORT);
        let answer = accepted(send(request).await?)?;
        let about: Value = serde_json::from_slice(&body(answer).await?)
            .map_err(|_| Error::Missing(format!("the registry's answer about '{name}' cannot be read")))?;
        npm_version(&about, wanted)
            .ok_or_else(|| Error::Missing(format!("'{name}' has no version for '{}'", wanted.unwrap_or("latest"))))
    }
}

fn build(route: &Route) -> Result<Client, Error> {
    let unsupported = |problem: String| Error::Unsupported(problem);
    let builder = route.http_client(LOOPBACK).map_err(|error| unsupported(error.to_string()))?;
    // Without the cause, which may contain the address of a proxy.
    builder.timeout(LIMIT).build().map_err(|_| unsupported("the proxy or caBundle cannot be used".into()))
}

/// Sends a request, unless the address policy forbids its address.
async fn send(request: RequestBuilder) -> Result<Response, Error> {
    let (client, request) = request.build_split();
    let request = request.map_err(|_| Error::Unsupported("the address is not a URL".into()))?;
    let url = request.url().clone();
    check_url(&url, LOOPBACK).map_err(|refused| Error::Forbidden(format!("{} {refused}", host_of(&url))))?;
    client.execute(request).await.map_err(|error| failed(&url, &TransferError::from(&error)))
}

/// The authentication that a registry asks for: a token, if it accepts one.
fn challenge(answer: &Response) -> Option<Challenge> {
    let headers = answer.headers().get_all(header::WWW_AUTHENTICATE).iter();
    let all = headers.filter_map(|value| Challenge::parse(value.to_str().ok()?));
    all.min_by_key(|challenge| *challenge == Challenge::Basic)
}

fn accepted(answer: Response) -> Result<Response, Error> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    Err(Error::Refused { host: host_of(answer.url()), status: answer.status() })
}

async fn body(answer: Response) -> Result<Vec<u8>, Error> {
    let url = answer.url().clone();
    let mut body = Vec::new();
    let read = read_body(answer, MAX_BYTES, |piece| {
        body.extend_from_slice(piece);
        Ok(())
    });
    match read.await {
        Ok(_) => Ok(body),
        Err(BodyError::Transfer(error)) => Err(failed(&url, &error)),
        Err(BodyError::TooLong(_) | BodyError::Write(_)) => {
            Err(Error::Missing(format!("{} answered more than {MAX_BYTES} bytes", host_of(&url))))
        }
    }
}

/// Without the URL, which may contain credentials.
fn failed(url: &Url, error: &TransferError) -> Error {
    let problem = match error {
        TransferError::Refused(refused) => return Error::Forbidden(refused.to_string()),
        TransferError::TimedOut(_) => "it takes too long",
        TransferError::Connect(_) => "it cannot be reached",
        TransferError::Broken(_) => "the connection broke",
    };
    Error::Unreachable { host: host_of(url), problem: problem.to_owned() }
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
