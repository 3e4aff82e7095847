//! Talking to a provider: what it offers, its keys, and codes for tokens.

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

use super::{CALLBACK, Oidc, claims, jws};
use crate::auth::{Token, User};

const PATIENCE: Duration = Duration::from_secs(10);
/// Documents of providers have some kilobytes.
const LARGEST: usize = 1024 * 1024;
/// Keys are looked at again after this time, so that one which was taken back is forgotten.
const FRESH: Duration = Duration::from_hours(1);
/// While a provider does not answer, what it said before is believed for this long.
const BELIEVED: Duration = Duration::from_hours(24);
/// Whoever sends tokens of unknown keys has us ask the provider no more often than this.
const PAUSE: Duration = Duration::from_secs(2);

/// Why a provider does not help.
#[derive(Debug, thiserror::Error)]
pub enum Mistake {
    /// An address that nobody should send secrets to.
    #[error("'{0}' is no https address")]
    Address(String),
    /// The client cannot be made.
    #[error("the authorities cannot be used: {0}")]
    Authorities(reqwest::Error),
    /// It does not answer.
    #[error("the provider does not answer: {0}")]
    Silent(#[from] reqwest::Error),
    /// It answers, but not with what it should.
    #[error("the provider answered {0}")]
    Answer(String),
    /// A token is not believed.
    #[error("the token is not believed: {0}")]
    Token(#[from] jws::Error),
    /// A token says something else than it must.
    #[error("the token does not help: {0}")]
    Claims(#[from] claims::Error),
}

/// What a provider offers.
#[derive(Clone, Debug, Deserialize)]
struct Offer {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

#[derive(Debug)]
struct Known {
    offer: Offer,
    keys: jws::Keys,
    at: Instant,
}

/// What is known of the provider, and when it was last asked.
#[derive(Debug, Default)]
struct Memory {
    known: Option<Arc<Known>>,
    asked: Option<Instant>,
}

/// A provider.
#[derive(Debug)]
pub struct Provider {
    /// How it is used.
    pub settings: Oidc,
    /// Where it sends people back to.
    redirect: String,
    http: reqwest::Client,
    memory: Mutex<Memory>,
}

/// Somebody whom the provider vouches for.
#[derive(Clone, Debug)]
pub struct Vouched {
    /// Who it is.
    pub user: User,
    /// Until when its word holds.
    pub until: Timestamp,
}

impl Provider {
    /// A provider that sends people back to the server at `base`.
    pub fn new(settings: Oidc, base: &str) -> Result<Self, Mistake> {
        guarded(&settings.issuer)?;
        // A second installation fails harmlessly: the same provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut http = reqwest::Client::builder()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("kubeopencode/", env!("CARGO_PKG_VERSION")));
        if let Some(pem) = &settings.authorities {
            let trusted = reqwest::Certificate::from_pem_bundle(pem).map_err(Mistake::Authorities)?;
            http = http.tls_certs_merge(trusted);
        }
        let redirect = format!("{}{CALLBACK}", base.trim_end_matches('/'));
        let http = http.build().map_err(Mistake::Authorities)?;
        Ok(Self { settings, redirect, http, memory: Mutex::default() })
    }

    /// Whether a token says that it is one of this provider's.
    pub fn issued(&self, token: &Token) -> bool {
        jws::Signed::read(token.reveal()).is_ok_and(|signed| signed.claimed_issuer() == Some(&self.settings.issuer))
    }

    /// Whom an ID token vouches for. With `nonce`, only one that was made for that login.
    pub async fn vouched(&self, token: &str, nonce: Option<&str>, now: Timestamp) -> Result<Vouched, Mistake> {
        let verify = |known: &Known| jws::Signed::read(token)?.verify(&known.keys);
        let claims = match verify(&*self.known(false).await?) {
            // Its keys may have changed a moment ago.
            Err(jws::Error::UnknownKey) => verify(&*self.known(true).await?)?,
            claims => claims?,
        };
        let until = claims::check(&self.settings, &claims, nonce, now)?;
        Ok(Vouched { user: claims::user(&self.settings, &claims)?, until })
    }

    /// Where a browser goes to log in.
    pub async fn entrance(&self, state: &str, nonce: &str, challenge: &str) -> Result<String, Mistake> {
        let known = self.known(false).await?;
        let mut url = guarded(&known.offer.authorization_endpoint)?;
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
    pub async fn exchange(&self, code: &str, verifier: &str) -> Result<String, Mistake> {
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
        let mut request = self.http.post(guarded(&known.offer.token_endpoint)?);
        let methods = &known.offer.token_endpoint_auth_methods_supported;
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

    /// What is known of the provider. With `anew`, keys that it changed since are known too.
    async fn known(&self, anew: bool) -> Result<Arc<Known>, Mistake> {
        let mut memory = self.memory.lock().await;
        let rested = memory.asked.is_none_or(|asked| asked.elapsed() > PAUSE);
        if let Some(known) = memory.known.clone() {
            let stale = anew || known.at.elapsed() > FRESH;
            if !stale || !rested {
                return Ok(known);
            }
        } else if !rested {
            return Err(Mistake::Answer("a moment ago with an error".to_owned()));
        }
        memory.asked = Some(Instant::now());
        match self.ask().await {
            Ok(known) => {
                let known = Arc::new(known);
                memory.known = Some(Arc::clone(&known));
                Ok(known)
            }
            Err(error) => match memory.known.clone().filter(|known| known.at.elapsed() < BELIEVED) {
                Some(known) => {
                    tracing::warn!(issuer = self.settings.issuer, %error, "keys are not up to date");
                    Ok(known)
                }
                None => Err(error),
            },
        }
    }

    async fn ask(&self) -> Result<Known, Mistake> {
        let place = format!("{}/.well-known/openid-configuration", self.settings.issuer.trim_end_matches('/'));
        let offer: Offer = read(self.http.get(guarded(&place)?)).await?;
        if offer.issuer != self.settings.issuer {
            return Err(Mistake::Answer(format!("as '{}'", offer.issuer)));
        }
        let keys: Value = read(self.http.get(guarded(&offer.jwks_uri)?)).await?;
        Ok(Known { offer, keys: jws::Keys::read(&keys), at: Instant::now() })
    }
}

/// An address that may be asked: https, or on this very machine.
fn guarded(text: &str) -> Result<Url, Mistake> {
    let wrong = || Mistake::Address(text.to_owned());
    let url = Url::parse(text).map_err(|_| wrong())?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if here => Ok(url),
        _ => Err(wrong()),
    }
}

async fn read<T: for<'de> Deserialize<'de>>(request: reqwest::RequestBuilder) -> Result<T, Mistake> {
    let mut response = request.header("accept", "application/json").send().await?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        body.extend_from_slice(&bytes);
        if body.len() > LARGEST {
            return Err(Mistake::Answer("more than fits".to_owned()));
        }
    }
    if !status.is_success() {
        return Err(Mistake::Answer(format!("with status {}", status.as_u16())));
    }
    // What it sent may hold tokens: it is not repeated.
    serde_json::from_slice(&body).map_err(|_| Mistake::Answer("with something else".to_owned()))
}

/// A text as forms have it.
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
