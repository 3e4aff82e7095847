//! Look-ups outside the cluster for reconcilers: digests of images, commits of Git repositories, versions of npm packages.
//! Every answer is bounded in size and time, and comes from an address that the policy of [`egress`] allows.

mod git;
pub mod route;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use domain::{
    contract::environment::{ALLOW_LOOPBACK, REFUSED_ADDRESSES},
    platform::Addressing,
    registry::{Challenge, ImageReference, commit_listed, commit_of, npm_version, package},
};
use egress::{
    BodyError, Credentials, Loopback, Policy, Repository, Route, TransferError, Transport, check_host, check_url,
    read_body,
};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header};
use serde_json::Value;

use crate::Environment;

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
#[derive(Clone, Debug)]
pub struct Lookup {
    client: Arc<OnceLock<Client>>,
    policy: Policy,
}

/// The address policy of the operator: other machines only, unless look-ups may reach this machine or not reach more.
pub fn policy(environment: &Environment, addressing: Addressing) -> Result<Policy, BadSetting> {
    let allowed = match environment(ALLOW_LOOPBACK).unwrap_or_default().as_str() {
        "" => addressing == Addressing::Local,
        text => text.parse().map_err(|_| BadSetting(format!("{ALLOW_LOOPBACK} must be true or false")))?,
    };
    let policy = Policy::from(if allowed { Loopback::Allowed } else { Loopback::Refused });
    let ranges = environment(REFUSED_ADDRESSES).unwrap_or_default();
    policy.deny(&ranges).map_err(|error| BadSetting(format!("{REFUSED_ADDRESSES}: {error}")))
}

/// A setting of the operator cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadSetting(String);

impl Lookup {
    /// Look-ups at addresses that `policy` allows.
    pub fn new(policy: Policy) -> Self {
        Self { client: Arc::default(), policy }
    }

    fn client(&self) -> Result<&Client, Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = build(&Route::default(), &self.policy)?;
        Ok(self.client.get_or_init(|| client))
    }

    /// Refuses a proxy of a user whose address the policy forbids.
    pub async fn check_proxy(&self, address: &str) -> Result<(), Error> {
        let unsupported = || Error::Unsupported("the address of the proxy is not a URL".into());
        let url = Url::parse(address).map_err(|_| unsupported())?;
        let host = host_of(&url);
        let host = host.trim_matches(['[', ']']);
        let checked = check_host(host, &self.policy).await;
        checked.map_err(|refused| Error::Forbidden(format!("the proxy {host} {refused}")))
    }

    /// A look-up through `route`.
    pub fn through(&self, route: &Route) -> Result<Self, Error> {
        if *route == Route::default() {
            return Ok(self.clone());
        }
        let client = Arc::new(OnceLock::from(build(route, &self.policy)?));
        Ok(Self { client, policy: self.policy.clone() })
    }

    /// The digest of an image.
    pub async fn image_digest(&self, image: &str, login: Option<&Login>) -> Result<String, Error> {
        let place = ImageReference::parse(image)
            .ok_or_else(|| Error::Unsupported(format!("'{image}' is not the name of an image")))?;
        let url = place.manifest_url();
        let mut answer = self.send(self.manifest(&url)?).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            let refused = || Error::Refused { host: place.registry.clone(), status: StatusCode::UNAUTHORIZED };
            let wanted = challenge(&answer).ok_or_else(refused)?;
            let request = self.manifest(&url)?;
            let request = match (wanted, login) {
                (Challenge::Basic, None) => return Err(refused()),
                (Challenge::Basic, Some(login)) => request.basic_auth(&login.username, Some(&login.password)),
                (Challenge::Bearer { realm, service, scope }, login) => {
                    let query = [("service", service), ("scope", scope)];
                    let token = self.registry_token(&realm, &query, login).await?;
                    request.bearer_auth(token.ok_or_else(refused)?)
                }
            };
            answer = self.send(request).await?;
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
        let answer = accepted(self.send(request).await?)?;
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
                let process = |name: &str| std::env::var_os(name);
                let listing = git::list(&repository, host, credentials, &self.policy, &process).await?;
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
        body(accepted(self.send(request).await?)?).await
    }

    /// The version of a package that npm would install.
    pub async fn npm_version(&self, registry: &str, spec: &str) -> Result<String, Error> {
        let (name, wanted) = package(spec);
        let url = format!("{}/{}", registry.trim_end_matches('/'), name.replace('/', "%2f"));
        let request = self.client()?.get(&url).header(header::ACCEPT, NPM_SHORT);
        let answer = accepted(self.send(request).await?)?;
        let about: Value = serde_json::from_slice(&body(answer).await?)
            .map_err(|_| Error::Missing(format!("the registry's answer about '{name}' cannot be read")))?;
        npm_version(&about, wanted)
            .ok_or_else(|| Error::Missing(format!("'{name}' has no version for '{}'", wanted.unwrap_or("latest"))))
    }

    /// Sends a request, unless the address policy forbids its address.
    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let (client, request) = request.build_split();
        let request = request.map_err(|_| Error::Unsupported("the address is not a URL".into()))?;
        let url = request.url().clone();
        check_url(&url, &self.policy).map_err(|refused| Error::Forbidden(format!("{} {refused}", host_of(&url))))?;
        client.execute(request).await.map_err(|error| failed(&url, &TransferError::from(&error)))
    }
}

fn build(route: &Route, policy: &Policy) -> Result<Client, Error> {
    let unsupported = |problem: String| Error::Unsupported(problem);
    let builder = route.http_client(policy).map_err(|error| unsupported(error.to_string()))?;
    // Without the cause, which may contain the address of a proxy.
    builder.timeout(LIMIT).build().map_err(|_| unsupported("the proxy or caBundle cannot be used".into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &'static [(&str, &str)], addressing: Addressing) -> Result<Policy, String> {
        let found =
            move |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let environment: Environment = Arc::new(found);
        policy(&environment, addressing).map_err(|error| error.to_string())
    }

    #[test]
    fn look_ups_reach_this_machine_only_if_the_operator_says_so() {
        let loopback = |variables, addressing| of(variables, addressing).unwrap().loopback;
        assert_eq!(loopback(&[], Addressing::Cluster), Loopback::Refused);
        assert_eq!(loopback(&[], Addressing::Local), Loopback::Allowed);
        assert_eq!(loopback(&[(ALLOW_LOOPBACK, "true")], Addressing::Cluster), Loopback::Allowed);
        assert_eq!(loopback(&[(ALLOW_LOOPBACK, "false")], Addressing::Local), Loopback::Refused);
        assert!(of(&[(ALLOW_LOOPBACK, "yes")], Addressing::Cluster).unwrap_err().contains(ALLOW_LOOPBACK));
        assert!(of(&[(REFUSED_ADDRESSES, "some")], Addressing::Cluster).unwrap_err().contains("'some' is neither"));
    }

    #[tokio::test]
    async fn a_refused_address_is_not_asked() {
        // Whether anything listens there does not matter.
        let lookup = Lookup::new(of(&[(REFUSED_ADDRESSES, "private")], Addressing::Cluster).unwrap());
        let image = async |image: &str| lookup.image_digest(image, None).await.unwrap_err().to_string();
        assert_eq!(
            image("127.0.0.1:9/a:1").await,
            "127.0.0.1 is this machine; only other machines may be read; use another address"
        );
        assert_eq!(
            image("10.0.0.1:9/a:1").await,
            "10.0.0.1 is in a range of addresses that the operator refuses; use another address"
        );
        let commit = async |address: &str| {
            lookup.commit(address, "main", &Credentials::default()).await.unwrap_err().to_string()
        };
        for address in ["http://127.0.0.1:9/a.git", "ssh://git@127.0.0.1:9/a.git", "http://localhost:9/a.git"] {
            assert!(commit(address).await.contains("is this machine"), "{address}");
        }
        assert!(lookup.npm_version("http://[::1]:9", "a").await.unwrap_err().to_string().contains("is this machine"));
        let proxy = async |address: &str| lookup.check_proxy(address).await.map_err(|error| error.to_string());
        assert!(proxy("http://127.0.0.1:3128").await.unwrap_err().contains("the proxy 127.0.0.1 is this machine"));
        assert_eq!(proxy("http://203.0.113.7:3128").await, Ok(()));
    }
}
