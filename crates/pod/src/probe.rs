//! probe: checks whether an Agent's server is usable.
//!
//! The kubelet would need the server's password in the Pod's spec; here it stays in the environment. A server with a
//! broken configuration answers with an error and is not ready.

use std::time::Duration;

use reqwest::{Client, Url};
use tokio::time::Instant;

use crate::env::{self, Lookup, SettingError};
use egress::{Authorities, AuthoritiesError};

/// Below the kubelet's timeout of 10 s, after which the reason would be lost.
const LIMIT: Duration = Duration::from_secs(9);
/// Timeout of the first request; it doubles with each request.
const FIRST: Duration = Duration::from_secs(1);
/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub struct Settings {
    pub url: Url,
    pub username: String,
    /// `None` if the server has none.
    pub password: Option<String>,
    /// Total time limit.
    pub limit: Duration,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            url: env::url(env, env::PROBE_URL, "an http:// URL such as http://127.0.0.1:4096/config")?,
            username: env::text(env, env::OPENCODE_SERVER_USERNAME)
                .unwrap_or_else(|| opencode::server::USER.to_owned()),
            password: env::text(env, env::OPENCODE_SERVER_PASSWORD),
            limit: LIMIT,
        })
    }
}

/// Why the server is not ready.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The HTTP client cannot be created.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    #[error("{url} does not answer: {cause}")]
    Silent { url: Url, cause: String },
    /// A status other than 200.
    #[error("{url} answers HTTP {status}")]
    Status { url: Url, status: u16 },
    /// Not an answer of OpenCode: unknown paths and other programs answer 200 with a page.
    #[error("{url} answers with something that is not JSON")]
    NotJson { url: Url },
}

/// Repeats the request until there is an answer or the time is up. So a starting server is ready at once, not at the
/// kubelet's next probe; and a request between bind and ready, which is never answered, is repeated.
pub async fn run(settings: &Settings) -> Result<(), Error> {
    // The server is in this Pod: there is no proxy and no certificate.
    let client = Authorities::default().http_client()?.no_proxy().build().map_err(AuthoritiesError::from)?;
    let deadline = Instant::now() + settings.limit;
    let mut limit = FIRST;
    let mut earlier = None;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match ask(&client, settings, limit.min(left)).await {
            Err(error @ Error::Silent { .. }) if Instant::now() + PAUSE < deadline => {
                earlier = Some(error);
                tokio::time::sleep(PAUSE).await;
            }
            // The deadline may have cut the last request short: the previous error has the cause.
            Err(error @ Error::Silent { .. }) => return Err(earlier.filter(|_| left < limit).unwrap_or(error)),
            answer => return answer,
        }
        limit *= 2;
    }
}

async fn ask(client: &Client, settings: &Settings, limit: Duration) -> Result<(), Error> {
    let url = settings.url.clone();
    let silent = |error: reqwest::Error| {
        let cause = if error.is_timeout() { "time is up" } else { "the connection failed" };
        Error::Silent { url: settings.url.clone(), cause: cause.to_owned() }
    };
    let mut request = client.get(url.clone()).timeout(limit);
    if let Some(password) = &settings.password {
        request = request.basic_auth(&settings.username, Some(password));
    }
    let response = request.send().await.map_err(silent)?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(Error::Status { url, status });
    }
    // The answer contains API keys; it is parsed and dropped.
    let body = response.bytes().await.map_err(silent)?;
    match serde_json::from_slice::<serde::de::IgnoredAny>(&body) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::NotJson { url }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;
    use axum::Router;
    use axum::http::{HeaderMap, StatusCode};
    use axum::routing::get;
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    async fn server() -> std::net::SocketAddr {
        let config = async |headers: HeaderMap| match headers.get("authorization") {
            // opencode:sesame
            Some(value) if value == "Basic b3BlbmNvZGU6c2VzYW1l" => (StatusCode::OK, r#"{"model":"a/b"}"#),
            _ => (StatusCode::UNAUTHORIZED, "no"),
        };
        let hang = async || std::future::pending::<&'static str>().await;
        // The first request comes too early.
        let asked = Arc::new(AtomicBool::new(false));
        let early = async move || {
            if !asked.swap(true, Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            "{}"
        };
        let router = Router::new()
            .route("/config", get(config))
            .route("/page", get(async || "<html>"))
            .route("/broken", get(async || (StatusCode::BAD_REQUEST, "{}")))
            .route("/hang", get(hang))
            .route("/early", get(early));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    #[tokio::test]
    async fn only_json_with_200_counts() {
        let address = server().await;
        let limited = async |path: &str, password: &str, limit: u64| {
            let url = format!("http://{address}{path}");
            let pairs = [(env::PROBE_URL, url.as_str()), (env::OPENCODE_SERVER_PASSWORD, password)];
            let settings = Settings { limit: Duration::from_secs(limit), ..Settings::from_env(&of(&pairs)).unwrap() };
            run(&settings).await.map_err(|error| error.to_string())
        };
        let ask = async |path: &str, password: &str| limited(path, password, 1).await;
        assert_eq!(ask("/config", "sesame").await, Ok(()));
        assert_eq!(limited("/early", "", 60).await, Ok(()));
        for (path, password, part) in [
            ("/config", "wrong", "answers HTTP 401"),
            ("/config", "", "answers HTTP 401"),
            ("/broken", "", "answers HTTP 400"),
            ("/page", "", "not JSON"),
            ("/hang", "", "time is up"),
        ] {
            let error = ask(path, password).await.unwrap_err();
            assert!(error.contains(part) && !error.contains("sesame"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_unreachable_server_is_reported() {
        let mut settings = Settings::from_env(&of(&[(env::PROBE_URL, "http://127.0.0.1:9/config")])).unwrap();
        settings.limit = Duration::from_secs(2);
        let error = run(&settings).await.unwrap_err().to_string();
        assert_eq!(error, "http://127.0.0.1:9/config does not answer: the connection failed");
        assert!(Settings::from_env(&of(&[])).is_err());
    }
}
