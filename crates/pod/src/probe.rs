//! probe: whether an Agent's server can be used.
//!
//! The kubelet would need the server's password in the Pod's spec to ask by itself; here it stays in the environment.
//! A server whose configuration is broken answers, but with an error: it is not ready.

use std::time::Duration;

use reqwest::Url;

use crate::env::{self, Lookup, SettingError};
use crate::trust::{Trust, TrustError};

/// The kubelet gives up after 10 s and then nobody hears why.
const LIMIT: Duration = Duration::from_secs(9);

/// What to ask.
#[derive(Clone)]
pub struct Settings {
    /// What must answer.
    pub url: Url,
    /// User of the server.
    pub username: String,
    /// Password of the server, if it has one.
    pub password: Option<String>,
    /// How long the answer may take.
    pub limit: Duration,
}

impl Settings {
    /// Reads the settings.
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            url: env::url(env, env::PROBE_URL, "an http:// URL such as http://127.0.0.1:4096/config")?,
            username: env::text(env, env::OPENCODE_SERVER_USERNAME).unwrap_or_else(|| "opencode".to_owned()),
            password: env::text(env, env::OPENCODE_SERVER_PASSWORD),
            limit: LIMIT,
        })
    }
}

/// Why the server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The client cannot be made.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No answer.
    #[error("{url} does not answer: {cause}")]
    Silent {
        /// What was asked.
        url: Url,
        /// Why.
        cause: String,
    },
    /// Another answer than 200.
    #[error("{url} answers HTTP {status}")]
    Status {
        /// What was asked.
        url: Url,
        /// The status.
        status: u16,
    },
    /// Not what OpenCode answers: unknown paths and other programs answer 200 with a page.
    #[error("{url} answers with something that is not JSON")]
    NotJson {
        /// What was asked.
        url: Url,
    },
}

/// Asks once.
pub async fn run(settings: &Settings) -> Result<(), Error> {
    // The server is in this Pod: no proxy and no certificate is between us.
    let client =
        Trust::default().http_client()?.no_proxy().timeout(settings.limit).build().map_err(TrustError::from)?;
    let url = settings.url.clone();
    let silent = |error: reqwest::Error| {
        let cause = if error.is_timeout() { "time is up" } else { "the connection failed" };
        Error::Silent { url: settings.url.clone(), cause: cause.to_owned() }
    };
    let mut request = client.get(url.clone());
    if let Some(password) = &settings.password {
        request = request.basic_auth(&settings.username, Some(password));
    }
    let response = request.send().await.map_err(silent)?;
    let status = response.status().as_u16();
    if status != 200 {
        return Err(Error::Status { url, status });
    }
    // The answer holds API keys; it is looked at and dropped.
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

    async fn server() -> std::net::SocketAddr {
        let config = async |headers: HeaderMap| match headers.get("authorization") {
            // opencode:sesame
            Some(value) if value == "Basic b3BlbmNvZGU6c2VzYW1l" => (StatusCode::OK, r#"{"model":"a/b"}"#),
            _ => (StatusCode::UNAUTHORIZED, "no"),
        };
        let hang = async || std::future::pending::<&'static str>().await;
        let router = Router::new()
            .route("/config", get(config))
            .route("/page", get(async || "<html>"))
            .route("/broken", get(async || (StatusCode::BAD_REQUEST, "{}")))
            .route("/hang", get(hang));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    #[tokio::test]
    async fn only_json_with_200_counts() {
        let address = server().await;
        let ask = async |path: &str, password: &str| {
            let url = format!("http://{address}{path}");
            let pairs = [(env::PROBE_URL, url.as_str()), (env::OPENCODE_SERVER_PASSWORD, password)];
            let settings = Settings { limit: Duration::from_secs(1), ..Settings::from_env(&of(&pairs)).unwrap() };
            run(&settings).await.map_err(|error| error.to_string())
        };
        assert_eq!(ask("/config", "sesame").await, Ok(()));
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
    async fn nobody_there_is_a_sentence() {
        let settings = Settings::from_env(&of(&[(env::PROBE_URL, "http://127.0.0.1:9/config")])).unwrap();
        let error = run(&settings).await.unwrap_err().to_string();
        assert_eq!(error, "http://127.0.0.1:9/config does not answer: the connection failed");
        assert!(Settings::from_env(&of(&[])).is_err());
    }
}
