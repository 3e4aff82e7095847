//! What lies outside the cluster: image registries, Git repositories, npm. Every answer is bounded in size and time, and
//! none comes from a link-local address: users name the places, and the metadata service of a cloud is none of them.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::StreamExt as _;
use kubeopencode_core::assets::{
    Challenge, ImageReference, SshRepository, commit_listed, commit_of, npm_version, package,
};
use reach::{CarefulResolver, Loopback, RefusedTarget, careful_redirects};
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, RequestBuilder, Response, StatusCode, Url, header};
use serde_json::Value;

use crate::{
    ssh::{self, SshKey},
    way::Way,
};

/// A sidecar may serve the controller. Nothing else listens there but our own numbers.
pub(crate) const LOOPBACK: Loopback = Loopback::Allowed;

/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// A larger answer is no answer. The refs of very large repositories and the versions of old packages take megabytes.
pub(crate) const MOST_BYTES: usize = 64 << 20;
/// Kinds of manifest that an image may have.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
/// npm's short form: versions without their whole history.
const NPM_SHORT: &str = "application/vnd.npm.install-v1+json";

/// Why something outside could not be looked at. The texts hold no credentials.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answered.
    #[error("no answer from {host}: {problem}")]
    Unreachable {
        /// Who.
        host: String,
        /// Why.
        problem: String,
    },
    /// It answered no.
    #[error("{host} answered {status}{}", advice(*status))]
    Refused {
        /// Who.
        host: String,
        /// What.
        status: StatusCode,
    },
    /// It does not have what was asked for.
    #[error("{0}")]
    Missing(String),
    /// It cannot be asked.
    #[error("{0}")]
    Unsupported(String),
    /// It may not be asked.
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

/// User name and password.
#[derive(Clone, Default)]
pub struct Login {
    /// User name.
    pub username: String,
    /// Password or token.
    pub password: String,
}

/// What a Secret has for a Git repository.
#[derive(Clone, Default)]
pub struct GitLogin {
    /// For https and http.
    pub login: Option<Login>,
    /// For ssh.
    pub key: Option<SshKey>,
}

/// Looks at what lies outside. By default it follows the process's proxy settings.
///
/// The client is made when it is first needed: it brings the certificates of all the world into memory.
#[derive(Clone, Debug, Default)]
pub struct Remote(Arc<OnceLock<Client>>);

impl Remote {
    fn client(&self) -> Result<&Client, Error> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        let made = builder().build();
        let made = made.map_err(|error| Error::Unsupported(format!("nothing outside can be reached: {error}")))?;
        Ok(self.0.get_or_init(|| made))
    }

    /// The same by another way.
    pub fn through(&self, way: &Way) -> Result<Self, Error> {
        if *way == Way::default() {
            return Ok(self.clone());
        }
        let unusable = |what: &str| Error::Unsupported(format!("{what} cannot be used"));
        let mut builder = builder();
        if let Some(pem) = &way.authorities {
            let certificates = Certificate::from_pem_bundle(pem).ok().filter(|found| !found.is_empty());
            builder = builder.tls_certs_merge(certificates.ok_or_else(|| unusable("caBundle"))?);
        }
        if let Some(proxy) = &way.proxy {
            let direct = NoProxy::from_string(&way.direct);
            let address = |address: &Option<String>| address.clone().filter(|address| !address.is_empty());
            if let Some(http) = address(&proxy.http_proxy) {
                let http = reqwest::Proxy::http(http).map_err(|_| unusable("proxy.httpProxy"))?;
                builder = builder.proxy(http.no_proxy(direct.clone()));
            }
            if let Some(https) = address(&proxy.https_proxy) {
                let https = reqwest::Proxy::https(https).map_err(|_| unusable("proxy.httpsProxy"))?;
                builder = builder.proxy(https.no_proxy(direct));
            }
        }
        let made = builder.build().map_err(|_| unusable("the proxy or caBundle"))?;
        Ok(Self(Arc::new(OnceLock::from(made))))
    }

    /// The digest of an image.
    pub async fn image_digest(&self, image: &str, login: Option<&Login>) -> Result<String, Error> {
        let place = ImageReference::parse(image)
            .ok_or_else(|| Error::Unsupported(format!("'{image}' is not the name of an image")))?;
        let url = place.manifest_url();
        let mut answer = ask(self.manifest(&url)?).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            let refused = || Error::Refused { host: place.registry.clone(), status: StatusCode::UNAUTHORIZED };
            let wanted = challenge(&answer).ok_or_else(refused)?;
            let request = self.manifest(&url)?;
            answer = ask(match (wanted, login) {
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
        digest.map(str::to_owned).ok_or_else(|| Error::Missing(format!("{} did not tell the digest", place.registry)))
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
        let answer = accepted(ask(request).await?)?;
        let body: Value = serde_json::from_slice(&bounded(answer).await?).unwrap_or_default();
        let token = body["token"].as_str().or_else(|| body["access_token"].as_str());
        Ok(token.map(str::to_owned))
    }

    /// The commit that a ref of a repository stands for.
    pub async fn commit(&self, repository: &str, reference: &str, login: &GitLogin) -> Result<String, Error> {
        let missing = || Error::Missing(format!("the repository has no '{reference}'"));
        if let Some(repository) = SshRepository::parse(repository) {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let listing = ssh::list(&repository, login.key.as_ref(), &path).await?;
            return commit_listed(&listing, reference).ok_or_else(missing);
        }
        if !repository.starts_with("https://") && !repository.starts_with("http://") {
            let advice = "the repository cannot be looked at: use https://, http://, ssh:// or git@host:path";
            return Err(Error::Unsupported(advice.into()));
        }
        let url = format!("{}/info/refs", repository.trim_end_matches('/'));
        let mut request = self.client()?.get(&url).query(&[("service", "git-upload-pack")]);
        if let Some(login) = &login.login {
            request = request.basic_auth(&login.username, Some(&login.password));
        }
        let answer = accepted(ask(request).await?)?;
        let refs = bounded(answer).await?;
        commit_of(&refs, reference).ok_or_else(missing)
    }

    /// The version of a package that npm would install.
    pub async fn npm_version(&self, registry: &str, spec: &str) -> Result<String, Error> {
        let (name, wanted) = package(spec);
        let url = format!("{}/{}", registry.trim_end_matches('/'), name.replace('/', "%2f"));
        let request = self.client()?.get(&url).header(header::ACCEPT, NPM_SHORT);
        let answer = accepted(ask(request).await?)?;
        let about: Value = serde_json::from_slice(&bounded(answer).await?)
            .map_err(|_| Error::Missing(format!("the registry's answer about '{name}' cannot be read")))?;
        npm_version(&about, wanted)
            .ok_or_else(|| Error::Missing(format!("'{name}' has no version for '{}'", wanted.unwrap_or("latest"))))
    }
}

fn builder() -> ClientBuilder {
    let careful = CarefulResolver(LOOPBACK);
    let builder = Client::builder().timeout(PATIENCE).user_agent("kubeopencode").dns_resolver(careful);
    builder.redirect(careful_redirects(LOOPBACK))
}

/// Sends a request, unless it goes where nothing may be read.
async fn ask(request: RequestBuilder) -> Result<Response, Error> {
    let (client, request) = request.build_split();
    let request = request.map_err(|_| Error::Unsupported("the address is not a URL".into()))?;
    let url = request.url().clone();
    reach::check_url(&url, LOOPBACK).map_err(|refused| Error::Forbidden(format!("{} {refused}", host_of(&url))))?;
    client.execute(request).await.map_err(|error| unreachable_host(&url, &error))
}

/// What a registry wants before it answers: a token, if it takes one.
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

async fn bounded(answer: Response) -> Result<Vec<u8>, Error> {
    let url = answer.url().clone();
    let mut body = Vec::new();
    let mut parts = answer.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| unreachable_host(&url, &error))?;
        if body.len() + part.len() > MOST_BYTES {
            return Err(Error::Missing(format!("{} answered more than {MOST_BYTES} bytes", host_of(&url))));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Without the URL, which may hold credentials.
fn unreachable_host(url: &Url, error: &reqwest::Error) -> Error {
    if let Some(refused) = RefusedTarget::behind(error) {
        return Error::Forbidden(refused.to_string());
    }
    let problem = if error.is_timeout() {
        "it takes too long"
    } else if error.is_connect() {
        "it cannot be reached"
    } else {
        "the connection broke"
    };
    Error::Unreachable { host: host_of(url), problem: problem.to_owned() }
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
