//! Who asks, and what they may do.
//!
//! Closed by default. A bearer token is reviewed by the Kubernetes API, or verified if it is of the identity provider
//! that the server was started with; a session cookie holds such a token or such a person, sealed; anonymous access
//! exists only where the server was started with it. Each right is asked for by a SubjectAccessReview. What is then
//! done at the Kubernetes API is done with the caller's own token, or by impersonating them; without either (a one-time
//! login of the embedded mode, anonymous access) with the server's rights, for exactly what was checked.

mod codes;
pub mod oidc;
mod origin;
mod review;
mod seal;
mod session;

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{
    extract::{FromRequestParts, Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, Method, header, request::Parts};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use codes::Codes;
pub use origin::{is_expected_host, is_same_origin, is_secure};
pub use review::{Attributes, Reviews, core_resource, ours};
pub use session::{Holder, LIFE, Sessions};

use crate::{
    error::{Answer, ApiError},
    state::Server,
};

/// Header that a page sends with every change.
pub const CSRF_HEADER: &str = "x-kubeopencode-csrf";

/// A person or program, as the Kubernetes API knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Option<String>,
    /// Its groups.
    pub groups: Vec<String>,
    /// Whatever else its authenticator tells.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A token. It shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    /// A token of this text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where a caller's rights come from.
#[derive(Clone, Debug)]
pub enum Standing {
    /// Every right is reviewed, and used with this token.
    Token(Token),
    /// Every right is reviewed, and used by impersonating the user.
    Vouched {
        /// Until when the identity provider, or the session that it led to, vouches for them.
        until: Timestamp,
    },
    /// The server's rights; nothing may be changed unless `write`.
    Open {
        /// Changes are allowed.
        write: bool,
    },
}

/// How a caller was recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// By a token in the request.
    Bearer,
    /// By a cookie.
    Session {
        /// What the page must send with every change.
        csrf: String,
        /// The session ends then.
        expires: Timestamp,
    },
    /// Not at all.
    Anonymous,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// As the Kubernetes API knows them.
    pub user: Arc<User>,
    /// Where their rights come from.
    pub standing: Standing,
    /// How they were recognised.
    pub via: Via,
}

impl Caller {
    /// Whether nothing may be changed, whatever roles say.
    pub fn is_read_only(&self) -> bool {
        matches!(self.standing, Standing::Open { write: false })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(log_in)
    }
}

fn log_in() -> ApiError {
    ApiError::unauthorized("log in, or send a token: Authorization: Bearer …")
}

/// Recognises the caller of every request below it.
pub async fn identify(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Answer<Response> {
    let caller = recognise(&server, request.headers()).await?;
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes {
        guard_against_other_pages(&server, &caller, request.headers())?;
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

async fn recognise(server: &Server, headers: &HeaderMap) -> Answer<Caller> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token =
            bearer(value).ok_or_else(|| ApiError::unauthorized("Authorization has the form: Bearer <token>"))?;
        let (user, standing) = by_token(server, token).await?;
        return Ok(Caller { user, standing, via: Via::Bearer });
    }
    if let Some(session) = server.sessions.of(headers, Timestamp::now()) {
        let until = session.expires;
        let via = Via::Session { csrf: session.csrf, expires: until };
        let (user, standing) = match session.holder {
            Holder::Token(token) => by_token(server, Token::new(&token)).await?,
            Holder::Person { issuer, user } => {
                if server.oidc.as_ref().is_none_or(|provider| provider.settings.issuer != issuer) {
                    return Err(log_in());
                }
                (Arc::new(user), Standing::Vouched { until })
            }
            Holder::Owner => (Arc::new(owner()), Standing::Open { write: true }),
        };
        return Ok(Caller { user, standing, via });
    }
    if server.options.anonymous
        && is_expected_host(headers, server.options.address.ip(), server.options.base_url.as_deref())
    {
        let standing = Standing::Open { write: server.options.anonymous_write };
        return Ok(Caller { user: Arc::new(anonymous()), standing, via: Via::Anonymous });
    }
    Err(log_in())
}

/// Whose token it is: of the identity provider by its signature, any other by the Kubernetes API's word.
pub async fn by_token(server: &Server, token: Token) -> Answer<(Arc<User>, Standing)> {
    let Some(provider) = server.oidc.as_ref().filter(|provider| provider.issued(&token)) else {
        let user = server.reviews.user(&token).await?;
        return Ok((user, Standing::Token(token)));
    };
    let vouched = provider.vouched(token.reveal(), None, Timestamp::now()).await.map_err(|mistake| {
        tracing::info!(issuer = provider.settings.issuer, %mistake, "a token was refused");
        match mistake {
            oidc::Mistake::Token(_) | oidc::Mistake::Claims(_) => ApiError::unauthorized("the token is not valid here"),
            _ => ApiError::unavailable("who you are cannot be checked now; try again"),
        }
    })?;
    Ok((Arc::new(vouched.user), Standing::Vouched { until: vouched.until }))
}

/// Whether a caller whose request lasts long is still known.
pub async fn is_still_known(server: &Server, caller: &Caller) -> Answer<()> {
    match &caller.standing {
        Standing::Token(token) => server.reviews.user(token).await.map(|_| ()),
        Standing::Vouched { until } if *until <= Timestamp::now() => Err(log_in()),
        Standing::Vouched { .. } | Standing::Open { .. } => Ok(()),
    }
}

/// A change needs proof that the page asked for it, and not another page in the same browser. A bearer token is such a
/// proof: no page has it by accident.
fn guard_against_other_pages(server: &Server, caller: &Caller, headers: &HeaderMap) -> Answer<()> {
    if caller.via == Via::Bearer {
        return Ok(());
    }
    if !is_same_origin(headers, server.options.base_url.as_deref()) {
        return Err(ApiError::forbidden("the request comes from another page"));
    }
    if let Via::Session { csrf, .. } = &caller.via {
        let sent = headers.get(CSRF_HEADER).map(http::HeaderValue::as_bytes).unwrap_or_default();
        if !bool::from(subtle::ConstantTimeEq::ct_eq(sent, csrf.as_bytes())) {
            return Err(ApiError::forbidden(
                "send the header X-KubeOpenCode-CSRF with the csrfToken of /api/v1/whoami",
            ));
        }
    }
    Ok(())
}

fn bearer(value: &http::HeaderValue) -> Option<Token> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| Token::new(token))
}

fn anonymous() -> User {
    User { name: "system:anonymous".to_owned(), groups: vec!["system:unauthenticated".to_owned()], ..User::default() }
}

/// Whoever opened the one-time link that the embedded mode printed: the owner of the machine.
fn owner() -> User {
    User { name: "owner".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_shows_itself_to_nobody() {
        assert_eq!(format!("{:?}", Token::new("secret")), "Token(…)");
    }

    #[test]
    fn only_bearer_tokens_are_read() {
        let value = |text: &'static str| bearer(&http::HeaderValue::from_static(text));
        assert_eq!(value("Bearer abc"), Some(Token::new("abc")));
        assert_eq!(value("bearer  abc "), Some(Token::new("abc")));
        for text in ["Basic abc", "Bearer", "Bearer ", "abc"] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
