//! url-fetch: puts the content of a URL into a file before the agent starts.
//!
//! Promises: never a link-local target, also not behind DNS or a redirect; never more than the size limit on disk;
//! secrets only to the host they were given for; the file appears whole or not at all.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use reach::{CarefulResolver, Loopback, Refused, RefusedTarget};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, Url};

use crate::env::{self, Lookup, SettingError};
use crate::place::{FileMode, PlaceError, Root};
use crate::redact::hide_userinfo;
use crate::repository::percent_decode;
use crate::trust::{Trust, TrustError};

/// More hops than this are a loop or a mistake.
const MOST_REDIRECTS: usize = 5;

/// What url-fetch is told.
#[derive(Clone)]
pub struct Settings {
    /// What to fetch.
    pub source: Url,
    /// The file to write.
    pub target: PathBuf,
    /// Extra headers; they may hold secrets.
    pub headers: HeaderMap,
    /// Limit of the whole transfer.
    pub timeout: Duration,
    /// Largest body.
    pub max_bytes: u64,
    /// Whether certificates are not checked.
    pub insecure: bool,
    /// How to log in.
    pub login: Option<Login>,
    /// The file's mode.
    pub mode: Option<u32>,
    /// Whether the Pod goes on without the file.
    pub optional: bool,
    /// Whether this machine may be read.
    pub loopback: Loopback,
    /// Trusted authorities.
    pub trust: Trust,
}

/// How to log in.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// `Authorization: Bearer …`.
    Token(String),
    /// `Authorization: Basic …`.
    Basic(String, String),
}

impl Settings {
    /// Reads the settings.
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let mut source = env::url(env, env::URL_SOURCE, "an http:// or https:// URL")?;
        let invalid =
            |name, problem: &str, expected| SettingError::Invalid { name, problem: problem.to_owned(), expected };
        let mut login = None;
        if !source.username().is_empty() || source.password().is_some() {
            let plain = percent_decode;
            login = Some(Login::Basic(plain(source.username()), plain(source.password().unwrap_or_default())));
            // Neither fails for http and https, and others are refused before the first request.
            let _ = source.set_username("");
            let _ = source.set_password(None);
        }
        match (env::text(env, env::URL_AUTH_TOKEN), env::text(env, env::URL_AUTH_USERNAME)) {
            (Some(token), _) => login = Some(Login::Token(token.trim().to_owned())),
            (None, Some(user)) => {
                // Many Secrets are made from files, with a line end that belongs to nobody's name.
                let line = |text: String| text.trim_end_matches(['\r', '\n']).to_owned();
                let password = env::text(env, env::URL_AUTH_PASSWORD).unwrap_or_default();
                login = Some(Login::Basic(line(user), line(password)));
            }
            (None, None) => {}
        }
        let expected_headers = r#"a JSON object such as {"Accept": "text/plain"}"#;
        let pairs: BTreeMap<String, String> = env::json(env, env::URL_HEADERS, expected_headers)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &pairs {
            let header = HeaderName::try_from(name.as_str());
            let content = HeaderValue::try_from(value.as_str());
            let (Ok(header), Ok(mut content)) = (header, content) else {
                let problem = format!("the header `{name}` has characters that HTTP does not allow");
                return Err(invalid(env::URL_HEADERS, &problem, expected_headers));
            };
            content.set_sensitive(true);
            headers.insert(header, content);
        }
        let target = PathBuf::from(env::required(env, env::URL_TARGET, "the file to write")?);
        if !target.is_absolute() || target.file_name().is_none() {
            return Err(invalid(env::URL_TARGET, "it is not an absolute path of a file", "an absolute path"));
        }
        Ok(Self {
            source,
            target,
            headers,
            timeout: env::duration(env, env::URL_TIMEOUT, Duration::from_secs(30))?,
            max_bytes: env::number(env, env::URL_MAX_BYTES, 10 << 20)?,
            insecure: env::flag(env, env::URL_INSECURE)?,
            login,
            mode: env::mode(env, env::URL_FILE_MODE)?,
            optional: env::flag(env, env::URL_OPTIONAL)?,
            loopback: if env::flag(env, env::URL_ALLOW_LOOPBACK)? { Loopback::Allowed } else { Loopback::Refused },
            trust: Trust::from_env(env),
        })
    }
}

/// Why the file was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The client cannot be made.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The address may not be read.
    #[error("{url} {refused}; use another URL for the context")]
    Refused {
        /// The URL.
        url: String,
        /// Why.
        refused: Refused,
    },
    /// A name resolves to an address that may not be read.
    #[error("{0}; use another URL for the context")]
    RefusedName(String),
    /// Not http or https.
    #[error("{url} is not http or https, which are the only protocols for URL contexts")]
    Protocol {
        /// The URL.
        url: String,
    },
    /// Too many hops.
    #[error("{url} redirects more than {MOST_REDIRECTS} times; use the final URL")]
    Redirects {
        /// The URL.
        url: String,
    },
    /// A redirect without a usable target.
    #[error("{url} answers with a redirect that leads nowhere")]
    BadRedirect {
        /// The URL.
        url: String,
    },
    /// The answer is no success.
    #[error("{url} answers {status}{hint}")]
    Status {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// What to do.
        hint: &'static str,
    },
    /// The body is too long.
    #[error("{url} is longer than {limit} bytes; fetch a smaller file or raise {}", env::URL_MAX_BYTES)]
    TooLong {
        /// The URL.
        url: String,
        /// The limit.
        limit: u64,
    },
    /// The transfer takes too long.
    #[error("{url} was not read within {} s; check the URL or raise {}", limit.as_secs_f32(), env::URL_TIMEOUT)]
    TimedOut {
        /// The URL.
        url: String,
        /// The limit.
        limit: Duration,
    },
    /// The connection failed.
    #[error("{url} cannot be read: {cause}")]
    Transfer {
        /// The URL.
        url: String,
        /// Why.
        cause: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

/// What was fetched.
#[derive(Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes written.
    pub bytes: u64,
    /// The URL that answered, after redirects, without secrets.
    pub url: String,
}

/// Fetches the URL into the file.
pub async fn run(settings: &Settings) -> Result<Fetched, Error> {
    let url = printable(&settings.source);
    let fetched = tokio::time::timeout(settings.timeout, fetch(settings))
        .await
        .map_err(|_| Error::TimedOut { url, limit: settings.timeout })??;
    tracing::info!(url = %fetched.url, bytes = fetched.bytes, target = ?settings.target, "fetched");
    Ok(fetched)
}

async fn fetch(settings: &Settings) -> Result<Fetched, Error> {
    let client = settings
        .trust
        .http_client()?
        .dns_resolver(CarefulResolver(settings.loopback))
        .tls_danger_accept_invalid_certs(settings.insecure)
        .connect_timeout(settings.timeout)
        .build()
        .map_err(TrustError::from)?;
    let mut url = settings.source.clone();
    for _ in 0..=MOST_REDIRECTS {
        check_url(&url, settings.loopback)?;
        let mut request = client.get(url.clone());
        // Scheme, host and port must be the same: a secret never follows a redirect to somebody else.
        if url.origin() == settings.source.origin() {
            request = request.headers(settings.headers.clone());
            request = match &settings.login {
                Some(Login::Token(token)) => request.bearer_auth(token),
                Some(Login::Basic(user, password)) => request.basic_auth(user, Some(password)),
                None => request,
            };
        }
        let response = request.send().await.map_err(|error| failed(&url, &error))?;
        let status = response.status();
        if status.is_redirection() && response.headers().contains_key(LOCATION) {
            url = next(&url, &response).ok_or_else(|| Error::BadRedirect { url: printable(&url) })?;
            continue;
        }
        if !status.is_success() {
            let hint = match status.as_u16() {
                401 | 403 => "; check the credentials of the context",
                404 | 410 => "; check the address of the context",
                _ => "",
            };
            return Err(Error::Status { url: printable(&url), status: status.as_u16(), hint });
        }
        return store(settings, &url, response).await;
    }
    Err(Error::Redirects { url: printable(&settings.source) })
}

fn check_url(url: &Url, loopback: Loopback) -> Result<(), Error> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::Protocol { url: printable(url) });
    }
    reach::check_url(url, loopback).map_err(|refused| Error::Refused { url: printable(url), refused })
}

fn next(url: &Url, response: &Response) -> Option<Url> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut next = url.join(location).ok()?;
    // Credentials in a redirect come from the server, not from the user.
    let _ = next.set_username("");
    let _ = next.set_password(None);
    Some(next)
}

async fn store(settings: &Settings, url: &Url, response: Response) -> Result<Fetched, Error> {
    let too_long = || Error::TooLong { url: printable(url), limit: settings.max_bytes };
    if response.content_length().is_some_and(|length| length > settings.max_bytes) {
        return Err(too_long());
    }
    let (Some(parent), Some(name)) = (settings.target.parent(), settings.target.file_name()) else {
        return Err(PlaceError::Outside(settings.target.clone()).into());
    };
    let root = Root::open(parent)?;
    let mode = settings.mode.map_or(FileMode::KeepOr(0o644), FileMode::Exactly);
    let mut pending = root.begin(name.as_ref(), mode)?;
    let io = |source| PlaceError::Io { path: settings.target.clone(), source };
    let mut bytes = 0;
    let mut body = response.bytes_stream();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|error| failed(url, &error))?;
        bytes += piece.len() as u64;
        if bytes > settings.max_bytes {
            return Err(too_long());
        }
        pending.append(&piece).map_err(io)?;
    }
    pending.commit().map_err(io)?;
    Ok(Fetched { bytes, url: printable(url) })
}

fn failed(url: &Url, error: &reqwest::Error) -> Error {
    if let Some(refused) = RefusedTarget::behind(error) {
        return Error::RefusedName(refused.to_string());
    }
    let mut cause = error.source();
    let mut last = error.to_string();
    while let Some(inner) = cause {
        last = inner.to_string();
        cause = inner.source();
    }
    Error::Transfer { url: printable(url), cause: hide_userinfo(&last) }
}

/// A URL as it may be shown: without credentials and without the query, which often holds a signature.
fn printable(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    if url.query().is_some() {
        url.set_query(Some("…"));
    }
    url.set_fragment(None);
    url.to_string().replace("%E2%80%A6", "…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    fn settings(extra: &[(&str, &str)]) -> Result<Settings, SettingError> {
        let mut pairs = extra.to_vec();
        pairs.extend([(env::URL_SOURCE, "https://example.com/a"), (env::URL_TARGET, "/workspace/a")]);
        Settings::from_env(&of(&pairs))
    }

    #[test]
    fn a_token_wins_over_user_and_password() {
        let pairs = [(env::URL_AUTH_TOKEN, "t\n"), (env::URL_AUTH_USERNAME, "u"), (env::URL_AUTH_PASSWORD, "p")];
        assert!(settings(&pairs).unwrap().login == Some(Login::Token("t".to_owned())));
        assert!(settings(&pairs[1..]).unwrap().login == Some(Login::Basic("u".to_owned(), "p".to_owned())));
        let lines = [(env::URL_AUTH_USERNAME, "u\r\n"), (env::URL_AUTH_PASSWORD, "p \n")];
        assert!(settings(&lines).unwrap().login == Some(Login::Basic("u".to_owned(), "p ".to_owned())));
        let escaped = settings(&[(env::URL_SOURCE, "https://me%40h:p%2Fw@example.com/a")]).unwrap();
        assert!(escaped.login == Some(Login::Basic("me@h".to_owned(), "p/w".to_owned())));
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        let url = Url::parse("https://me:pw@example.com/a?X-Signature=secret#f").unwrap();
        assert_eq!(printable(&url), "https://example.com/a?…");
        let settings = settings(&[(env::URL_SOURCE, "https://me:pw@example.com/a")]).unwrap();
        assert_eq!(settings.source.as_str(), "https://example.com/a");
        assert!(settings.login == Some(Login::Basic("me".to_owned(), "pw".to_owned())));
    }

    #[test]
    fn only_http_may_be_spoken() {
        let ftp = Url::parse("ftp://h/").unwrap();
        assert!(matches!(check_url(&ftp, Loopback::Allowed), Err(Error::Protocol { .. })));
    }

    #[test]
    fn bad_settings_are_refused() {
        for (name, value) in [
            (env::URL_SOURCE, "not a url"),
            (env::URL_TARGET, "relative"),
            (env::URL_TARGET, "/"),
            (env::URL_HEADERS, r#"{"a b": "c"}"#),
            (env::URL_MAX_BYTES, "lots"),
        ] {
            assert!(settings(&[(name, value)]).is_err(), "{name}={value}");
        }
    }
}
