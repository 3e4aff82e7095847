//! The client of a provider: discovery, keys, and the exchange of codes for tokens.

use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use super::{
    CALLBACK, Oidc,
    claims::{self, Claims},
    jws,
};
use crate::auth::{Token, User};

/// Timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of a response body, in bytes. The documents of providers have some kilobytes.
const LARGEST: usize = 1024 * 1024;
/// Keys are fetched again after this time, so that a revoked key is dropped.
const FRESH: Duration = Duration::from_hours(1);
/// While a provider is unreachable, its last keys are used for this long.
const STALE: Duration = Duration::from_hours(24);
/// Minimum time between two fetches: tokens with unknown keys cause no more than this.
const PAUSE: Duration = Duration::from_secs(2);

/// Why a provider or one of its tokens cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Secrets are sent to https addresses only.
    #[error("'{0}' is not an https address")]
    Address(String),
    /// The configured certificate authorities are invalid.
    #[error("invalid certificate authorities: {0}")]
    Authorities(reqwest::Error),
    /// The provider cannot be reached.
    #[error("the provider is unreachable: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// The provider sent an unexpected response.
    #[error("unexpected response of the provider: {0}")]
    Response(String),
    /// The token is refused.
    #[error("invalid token: {0}")]
    Token(#[from] claims::Error),
}

/// The discovery document of a provider.
#[derive(Clone, Debug, Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// The data of the provider, and when it was fetched.
#[derive(Debug)]
struct Known {
    discovery: Discovery,
    keys: jws::Keys,
    at: Instant,
}

#[derive(Debug, Default)]
struct Cache {
    known: Option<Arc<Known>>,
    /// The last fetch, successful or not.
    fetched: Option<Instant>,
}

/// A provider.
#[derive(Debug)]
pub struct Provider {
    pub settings: Oidc,
    /// Where the provider sends browsers back to.
    redirect: String,
    http: reqwest::Client,
    cache: Mutex<Cache>,
}

/// A user whom the provider authenticated.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// The Kubernetes user.
    pub user: User,
    /// The end of the token's validity.
    pub until: Timestamp,
}

impl Provider {
    /// A provider that sends people back to the server at `base`.
    pub fn new(settings: Oidc, base: &str) -> Result<Self, Error> {
        guarded(&settings.issuer)?;
        // A second installation fails harmlessly: the same provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("kubeopencode/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = &settings.authorities {
            let trusted = reqwest::Certificate::from_pem_bundle(pem).map_err(Error::Authorities)?;
            http = http.tls_certs_merge(trusted);
        }
        let redirect = format!("{}{CALLBACK}", base.trim_end_matches('/'));
        let http = http.build().map_err(Error::Authorities)?;
        Ok(Self { settings, redirect, http, cache: Mutex::default() })
    }

    /// Whether a token names this provider as its issuer. Not verified.
    pub fn issued(&self, token: &Token) -> bool {
        jws::claimed_issuer(token.reveal()).is_some_and(|issuer| issuer == self.settings.issuer)
    }

    /// The user of an ID token. With `nonce`, only a token of that login is accepted.
    pub async fn authenticate(&self, token: &str, nonce: Option<&str>) -> Result<Authenticated, Error> {
        let verify = |known: &Known| Claims::verify(&self.settings, &known.keys, token, nonce);
        let claims = match verify(&*self.known(false).await?) {
            // The provider may have changed its keys a moment ago.
            Err(claims::Error::Token(jws::Error::UnknownKey)) => verify(&*self.known(true).await?)?,
            claims => claims?,
        };
        Ok(Authenticated { user: claims.user(&self.settings)?, until: claims.until()? })
    }

    /// The page of the provider on which a browser logs in.
    pub async fn login_url(&self, state: &str, nonce: &str, challenge: &str) -> Result<String, Error> {
        let known = self.known(false).await?;
        let mut url = guarded(&known.discovery.authorization_endpoint)?;
        let scopes: Vec<&str> =
            std::iter::once("openid").chain(self.settings.scopes.iter().map(String::as_str)).collect();
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &self.redirect)
            .append_pair("scope", &scopes.join(" "))
            .append_pair("state", state)
            .append_pair("nonce", nonce)
            .append_pair("code_challenge", challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// The ID token for a code that a browser brought back.
    pub async fn exchange(&self, code: &str, verifier: &str) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Tokens {
            id_token: String,
        }
        let known = self.known(false).await?;
        let Oidc { client_id, client_secret, .. } = &self.settings;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect),
            ("client_id", client_id),
            ("code_verifier", verifier),
        ];
        let mut request = self.http.post(guarded(&known.discovery.token_endpoint)?);
        let methods = &known.discovery.token_endpoint_auth_methods_supported;
        let only_post = !methods.is_empty() && methods.iter().all(|method| method != "client_secret_basic");
        match client_secret {
            Some(secret) if only_post => form.push(("client_secret", secret)),
            Some(secret) => request = request.basic_auth(encoded(client_id), Some(encoded(secret))),
            None => {}
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        let tokens: Tokens = read(request).await?;
        Ok(tokens.id_token)
    }

    /// The data of the provider, from the cache while it is fresh. With `refresh`, fetched again.
    async fn known(&self, refresh: bool) -> Result<Arc<Known>, Error> {
        let mut cache = self.cache.lock().await;
        let rested = cache.fetched.is_none_or(|fetched| fetched.elapsed() > PAUSE);
        if let Some(known) = cache.known.clone() {
            let stale = refresh || known.at.elapsed() > FRESH;
            if !stale || !rested {
                return Ok(known);
            }
        } else if !rested {
            return Err(Error::Response("the last request failed a moment ago".to_owned()));
        }
        cache.fetched = Some(Instant::now());
        match self.fetch().await {
            Ok(known) => {
                let known = Arc::new(known);
                cache.known = Some(Arc::clone(&known));
                Ok(known)
            }
            Err(error) => match cache.known.clone().filter(|known| known.at.elapsed() < STALE) {
                Some(known) => {
                    tracing::warn!(issuer = self.settings.issuer, %error, "using stale keys of the provider");
                    Ok(known)
                }
                None => Err(error),
            },
        }
    }

    async fn fetch(&self) -> Result<Known, Error> {
        let address = format!("{}/.well-known/openid-configuration", self.settings.issuer.trim_end_matches('/'));
        let discovery: Discovery = read(self.http.get(guarded(&address)?)).await?;
        if discovery.issuer != self.settings.issuer {
            return Err(Error::Response(format!("it names itself '{}'", discovery.issuer)));
        }
        let keys: Value = read(self.http.get(guarded(&discovery.jwks_uri)?)).await?;
        Ok(Known { discovery, keys: jws::Keys::from_set(&keys), at: Instant::now() })
    }
}

/// An address that secrets may be sent to: https, or on this machine.
fn guarded(text: &str) -> Result<Url, Error> {
    let wrong = || Error::Address(text.to_owned());
    let url = Url::parse(text).map_err(|_| wrong())?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if here => Ok(url),
        _ => Err(wrong()),
    }
}

async fn read<T: for<'de> Deserialize<'de>>(request: reqwest::RequestBuilder) -> Result<T, Error> {
    let mut response = request.header("accept", "application/json").send().await?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        body.extend_from_slice(&bytes);
        if body.len() > LARGEST {
            return Err(Error::Response("the body is too large".to_owned()));
        }
    }
    if !status.is_success() {
        return Err(Error::Response(format!("status {}", status.as_u16())));
    }
    // The body may hold tokens, so the error does not quote it.
    serde_json::from_slice(&body).map_err(|_| Error::Response("the body has another form".to_owned()))
}

/// Form encoding, which OAuth requires inside basic authentication.
fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_to_https_addresses_or_stay_on_this_machine() {
        for good in ["https://id.example", "http://127.0.0.1:5556/dex", "http://[::1]:1", "http://localhost:1"] {
            assert!(guarded(good).is_ok(), "{good}");
        }
        for bad in ["http://id.example", "ftp://127.0.0.1", "id.example", "", "http://localhost.evil.example"] {
            assert!(guarded(bad).is_err(), "{bad}");
        }
    }
}
