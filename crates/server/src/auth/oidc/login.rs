//! The login of browsers: authorization code flow with PKCE, state and nonce.
//!
//! The state of a login travels in an encrypted cookie, so only the browser that began a login can finish it, at any
//! replica with the same session key.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse as _, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, header};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Error, Provider, claims};
use crate::{
    auth::{Holder, random},
    edge::{
        extract::Params,
        front::{Client, slow_down},
    },
    error::{Answer, ApiError},
    state::Server,
};

/// Path at which a login begins.
pub const PATH: &str = "/login/oidc";
const COOKIE: &str = "kubeopencode-login";
/// Time limit for the login at the provider.
const LIFE: SignedDuration = SignedDuration::from_mins(10);

/// The state of one login.
#[derive(Serialize, Deserialize)]
struct Attempt {
    state: String,
    nonce: String,
    verifier: String,
    next: String,
    expires: Timestamp,
}

/// Where to go after the login.
#[derive(Debug, Deserialize)]
pub struct BeginQuery {
    next: Option<String>,
}

/// The parameters with which the provider sends a browser back.
#[derive(Debug, Deserialize)]
pub struct FinishQuery {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// Why a login failed, for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    /// The provider or the user denied it.
    Denied,
    /// The login took too long, or another browser began it.
    Expired,
    /// The provider is unreachable, or its token is invalid.
    Failed,
    /// The claims hold no usable name.
    Refused,
}

impl Problem {
    fn page(self) -> &'static str {
        match self {
            Self::Denied => "/login?problem=denied",
            Self::Expired => "/login?problem=expired",
            Self::Failed => "/login?problem=failed",
            Self::Refused => "/login?problem=refused",
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Token(claims::Error::NoName(_) | claims::Error::UnverifiedMail) => Self::Refused,
            _ => Self::Failed,
        }
    }
}

/// Sends a browser to the provider.
pub async fn begin(
    State(server): State<Arc<Server>>,
    client: Client,
    Params(query): Params<BeginQuery>,
) -> Answer<Response> {
    slow_down(&server, client)?;
    let provider = configured(&server)?;
    let text = || random::text(32).map_err(|error| ApiError::internal("a login cannot be started", &error));
    let attempt = Attempt {
        state: text()?,
        nonce: text()?,
        verifier: text()?,
        next: own_page(query.next),
        expires: Timestamp::now().checked_add(LIFE).unwrap_or(Timestamp::MAX),
    };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&attempt.verifier));
    let login_url = match provider.login_url(&attempt.state, &attempt.nonce, &challenge).await {
        Ok(url) => url,
        Err(error) => {
            tracing::warn!(issuer = provider.settings.issuer, %error, "a login failed");
            return Ok(Redirect::to(Problem::Failed.page()).into_response());
        }
    };
    let cookie = server
        .sessions
        .keep(COOKIE, PATH, &attempt, LIFE)
        .map_err(|error| ApiError::internal("a login cannot be started", &error))?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&login_url)).into_response())
}

/// Finishes the login of a browser that the provider sent back.
pub async fn finish(
    State(server): State<Arc<Server>>,
    client: Client,
    headers: HeaderMap,
    Params(query): Params<FinishQuery>,
) -> Answer<Response> {
    slow_down(&server, client)?;
    let provider = configured(&server)?;
    let over = (header::SET_COOKIE, server.sessions.forget(COOKIE, PATH));
    let attempt = server.sessions.kept::<Attempt>(&headers, COOKIE);
    match authenticate(provider, attempt, query).await {
        Ok((holder, next)) => {
            let life = SignedDuration::try_from(provider.settings.session).unwrap_or(SignedDuration::ZERO);
            let (_, session) = server
                .sessions
                .start(holder, life, Timestamp::now())
                .map_err(|error| ApiError::internal("a session cannot be created", &error))?;
            let cookies = AppendHeaders([over, (header::SET_COOKIE, session)]);
            Ok((cookies, Redirect::to(&next)).into_response())
        }
        Err(problem) => Ok((AppendHeaders([over]), Redirect::to(problem.page())).into_response()),
    }
}

/// The authenticated user, and the page to show after the login.
async fn authenticate(
    provider: &Provider,
    attempt: Option<Attempt>,
    query: FinishQuery,
) -> Result<(Holder, String), Problem> {
    let now = Timestamp::now();
    let attempt = attempt.filter(|attempt| attempt.expires > now).ok_or(Problem::Expired)?;
    let state = query.state.unwrap_or_default();
    if !bool::from(subtle::ConstantTimeEq::ct_eq(state.as_bytes(), attempt.state.as_bytes())) {
        return Err(Problem::Expired);
    }
    let issuer = &provider.settings.issuer;
    // RFC 9207: a response that names its issuer must come from ours.
    if query.iss.is_some_and(|named| named != *issuer) {
        return Err(Problem::Failed);
    }
    if let Some(error) = query.error {
        tracing::info!(issuer, error, "the provider refused a login");
        return Err(if error == "access_denied" { Problem::Denied } else { Problem::Failed });
    }
    let code = query.code.ok_or(Problem::Failed)?;
    let authenticated = async {
        let token = provider.exchange(&code, &attempt.verifier).await?;
        provider.authenticate(&token, Some(&attempt.nonce)).await
    };
    let authenticated = authenticated.await.map_err(|error| {
        tracing::warn!(issuer, %error, "a login failed");
        Problem::from(&error)
    })?;
    Ok((Holder::Person { issuer: issuer.clone(), user: authenticated.user }, attempt.next))
}

fn configured(server: &Server) -> Answer<&Provider> {
    server.oidc.as_ref().ok_or_else(|| ApiError::not_found("no identity provider is configured"))
}

/// A path of our own page. Anything else would make the login an open redirect.
fn own_page(next: Option<String>) -> String {
    let is_ours = |next: &String| {
        next.starts_with('/')
            && !next.starts_with("//")
            && next.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'\\')
    };
    next.filter(is_ours).unwrap_or_else(|| "/".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_ends_on_our_own_page() {
        let page = |next: &str| own_page(Some(next.to_owned()));
        for ours in ["/", "/tasks?phase=Running#log", "/namespaces/a/tasks/b"] {
            assert_eq!(page(ours), ours);
        }
        for other in ["", "//evil.example", "/\\evil.example", "https://evil.example", "tasks", "/\t/evil", "/a\r\nb"] {
            assert_eq!(page(other), "/", "{other}");
        }
        assert_eq!(own_page(None), "/");
    }
}
