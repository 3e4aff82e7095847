//! The way in for browsers: authorization code flow with PKCE, state and nonce.
//!
//! What belongs to one login travels in a sealed cookie, so whoever comes back with a code must be the browser that
//! left, and any server that has the same key can take it in.

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

use super::{Mistake, Provider, claims};
use crate::{
    auth::Holder,
    error::{Answer, ApiError},
    extract::Params,
    front::{Client, slow_down},
    random,
    state::Server,
};

/// Where a login begins.
pub const PATH: &str = "/login/oidc";
const COOKIE: &str = "kubeopencode-login";
/// How long a person may take at the provider.
const LIFE: SignedDuration = SignedDuration::from_mins(10);

/// What belongs to one login.
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

/// What the provider sends a browser back with.
#[derive(Debug, Deserialize)]
pub struct FinishQuery {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// Why nobody was logged in: a word for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    /// The provider or the person said no.
    Denied,
    /// It took too long, or another browser began it.
    Expired,
    /// The provider does not answer, or cannot be believed.
    Failed,
    /// The person has no name that can be used here.
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

impl From<&Mistake> for Problem {
    fn from(mistake: &Mistake) -> Self {
        match mistake {
            Mistake::Claims(claims::Error::NoName(_) | claims::Error::UnverifiedMail) => Self::Refused,
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
    let text = || random::text(32).map_err(|error| ApiError::internal("no login can be begun", &error));
    let attempt = Attempt {
        state: text()?,
        nonce: text()?,
        verifier: text()?,
        next: own_page(query.next),
        expires: Timestamp::now().checked_add(LIFE).unwrap_or(Timestamp::MAX),
    };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&attempt.verifier));
    let entrance = match provider.entrance(&attempt.state, &attempt.nonce, &challenge).await {
        Ok(entrance) => entrance,
        Err(mistake) => {
            tracing::warn!(issuer = provider.settings.issuer, %mistake, "no login");
            return Ok(Redirect::to(Problem::Failed.page()).into_response());
        }
    };
    let cookie = server
        .sessions
        .keep(COOKIE, PATH, &attempt, LIFE)
        .map_err(|error| ApiError::internal("no login can be begun", &error))?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&entrance)).into_response())
}

/// Takes in a browser that comes back.
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
    match known(provider, attempt, query).await {
        Ok((holder, next)) => {
            let life = SignedDuration::try_from(provider.settings.session).unwrap_or(SignedDuration::ZERO);
            let (_, session) = server
                .sessions
                .start(holder, life, Timestamp::now())
                .map_err(|error| ApiError::internal("no session can be made", &error))?;
            let cookies = AppendHeaders([over, (header::SET_COOKIE, session)]);
            Ok((cookies, Redirect::to(&next)).into_response())
        }
        Err(problem) => Ok((AppendHeaders([over]), Redirect::to(problem.page())).into_response()),
    }
}

/// Who came back, and where they want to go.
async fn known(provider: &Provider, attempt: Option<Attempt>, query: FinishQuery) -> Result<(Holder, String), Problem> {
    let now = Timestamp::now();
    let attempt = attempt.filter(|attempt| attempt.expires > now).ok_or(Problem::Expired)?;
    let state = query.state.unwrap_or_default();
    if !bool::from(subtle::ConstantTimeEq::ct_eq(state.as_bytes(), attempt.state.as_bytes())) {
        return Err(Problem::Expired);
    }
    let issuer = &provider.settings.issuer;
    // A provider that names itself here must be the one that was asked.
    if query.iss.is_some_and(|named| named != *issuer) {
        return Err(Problem::Failed);
    }
    if let Some(error) = query.error {
        tracing::info!(issuer, error, "a login was refused by the provider");
        return Err(if error == "access_denied" { Problem::Denied } else { Problem::Failed });
    }
    let code = query.code.ok_or(Problem::Failed)?;
    let vouched = async {
        let token = provider.exchange(&code, &attempt.verifier).await?;
        provider.vouched(&token, Some(&attempt.nonce), now).await
    };
    let vouched = vouched.await.map_err(|mistake| {
        tracing::warn!(issuer, %mistake, "no login");
        Problem::from(&mistake)
    })?;
    Ok((Holder::Person { issuer: issuer.clone(), user: vouched.user }, attempt.next))
}

fn configured(server: &Server) -> Answer<&Provider> {
    server.oidc.as_ref().ok_or_else(|| ApiError::not_found("this server knows no identity provider"))
}

/// A path of our own page. Anything else would make a login a way to any other page.
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
