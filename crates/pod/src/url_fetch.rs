//! url-fetch: downloads a URL into a file before the agent starts.
//!
//! Guarantees: never a link-local target, also not through DNS or a redirect; never more than the size limit on disk;
//! secrets only for the host they were given for; the file is written atomically.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use egress::{
    Authorities, AuthoritiesError, BodyError, Loopback, Refused, TransferError, guard, printable, read_body,
    take_userinfo,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Response, Url, redirect};

use crate::env::{self, Lookup, SettingError};
use crate::place::{FileMode, PlaceError, Root};

/// More redirects than this are a loop or a mistake.
const MAX_REDIRECTS: usize = 5;

#[derive(Clone)]
pub struct Settings {
    /// URL to fetch, without credentials.
    pub source: Url,
    pub target: PathBuf,
    /// Additional request headers; they may contain secrets.
    pub headers: HeaderMap,
    /// Time limit of the whole transfer.
    pub timeout: Duration,
    /// Largest body in bytes.
    pub max_bytes: u64,
    /// Whether invalid certificates are accepted.
    pub insecure: bool,
    /// Credentials for the origin of `source`.
    pub login: Option<Login>,
    /// Permission bits of the file; 0644 or those of the existing file when unset.
    pub mode: Option<u32>,
    /// Whether the Pod starts without the file if it is unavailable.
    pub optional: bool,
    /// Whether loopback addresses are allowed.
    pub loopback: Loopback,
    pub authorities: Authorities,
}

/// Credentials of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// `Authorization: Bearer …`.
    Token(String),
    /// `Authorization: Basic …`.
    Basic(String, String),
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let mut source = env::url(env, env::URL_SOURCE, "an http:// or https:// URL")?;
        let invalid =
            |name, problem: &str, expected| SettingError::Invalid { name, problem: problem.to_owned(), expected };
        let mut login = take_userinfo(&mut source).map(|(user, password)| Login::Basic(user, password));
        match (env::text(env, env::URL_AUTH_TOKEN), env::text(env, env::URL_AUTH_USERNAME)) {
            (Some(token), _) => login = Some(Login::Token(token.trim().to_owned())),
            (None, Some(user)) => {
                // Many Secrets are created from files and end with a line end that is not part of the value.
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
            authorities: crate::authorities::from_env(env),
        })
    }
}

/// Why the download failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The certificates cannot be read.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    /// The address policy refuses the URL.
    #[error("{url} {refused}; use another URL for the context")]
    Refused { url: String, refused: Refused },
    /// The address policy refuses an address that the name resolves to.
    #[error("{0}; use another URL for the context")]
    RefusedName(String),
    /// Neither http nor https.
    #[error("{url} is not http or https, which are the only protocols for URL contexts")]
    Protocol { url: String },
    /// Too many redirects.
    #[error("{url} redirects more than {MAX_REDIRECTS} times; use the final URL")]
    Redirects { url: String },
    /// A redirect without a usable target.
    #[error("{url} answers with a redirect that leads nowhere")]
    BadRedirect { url: String },
    /// An HTTP status other than success.
    #[error("{url} answers {status}{hint}")]
    Status {
        url: String,
        status: u16,
        /// Advice; may be empty.
        hint: &'static str,
    },
    /// The body is too long.
    #[error("{url} is longer than {limit} bytes; fetch a smaller file or raise {}", env::URL_MAX_BYTES)]
    TooLong { url: String, limit: u64 },
    /// The time limit was exceeded.
    #[error("{url} was not read within {} s; check the URL or raise {}", limit.as_secs_f32(), env::URL_TIMEOUT)]
    TimedOut { url: String, limit: Duration },
    /// The connection failed.
    #[error("{url} cannot be read: {cause}")]
    Transfer {
        url: String,
        /// The innermost error.
        cause: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Place(#[from] PlaceError),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Fetched {
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
    // Redirects are followed below, where credentials are dropped.
    let client = guard(settings.authorities.http_client()?, &settings.loopback.into())
        .redirect(redirect::Policy::none())
        .tls_danger_accept_invalid_certs(settings.insecure)
        .connect_timeout(settings.timeout)
        .build()
        .map_err(AuthoritiesError::from)?;
    let mut url = settings.source.clone();
    for _ in 0..=MAX_REDIRECTS {
        check_url(&url, settings.loopback)?;
        let mut request = client.get(url.clone());
        // Scheme, host and port must be the same: a secret never follows a redirect to another server.
        if url.origin() == settings.source.origin() {
            request = request.headers(settings.headers.clone());
            request = match &settings.login {
                Some(Login::Token(token)) => request.bearer_auth(token),
                Some(Login::Basic(user, password)) => request.basic_auth(user, Some(password)),
                None => request,
            };
        }
        let response = request.send().await.map_err(|error| failed(&url, &TransferError::from(&error)))?;
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
    egress::check_url(url, &loopback.into()).map_err(|refused| Error::Refused { url: printable(url), refused })
}

fn next(url: &Url, response: &Response) -> Option<Url> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut next = url.join(location).ok()?;
    // Credentials in a redirect come from the server, not from the user.
    take_userinfo(&mut next);
    Some(next)
}

async fn store(settings: &Settings, url: &Url, response: Response) -> Result<Fetched, Error> {
    let (Some(parent), Some(name)) = (settings.target.parent(), settings.target.file_name()) else {
        return Err(PlaceError::Outside(settings.target.clone()).into());
    };
    let root = Root::open(parent)?;
    let mode = settings.mode.map_or(FileMode::KeepOr(0o644), FileMode::Exactly);
    let mut pending = root.begin(name.as_ref(), mode)?;
    let io = |source| PlaceError::Io { path: settings.target.clone(), source };
    let read = read_body(response, settings.max_bytes, |piece| pending.append(piece)).await;
    let bytes = read.map_err(|error| match error {
        BodyError::TooLong(limit) => Error::TooLong { url: printable(url), limit },
        BodyError::Transfer(error) => failed(url, &error),
        BodyError::Write(error) => io(error).into(),
    })?;
    pending.commit().map_err(io)?;
    Ok(Fetched { bytes, url: printable(url) })
}

fn failed(url: &Url, error: &TransferError) -> Error {
    match error {
        TransferError::Refused(refused) => Error::RefusedName(refused.to_string()),
        other => Error::Transfer { url: printable(url), cause: other.to_string() },
    }
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
    fn credentials_in_the_url_become_a_login() {
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
