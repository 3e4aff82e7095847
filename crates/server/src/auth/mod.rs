//! Authentication and authorization of callers.
//!
//! Closed by default. A bearer token is reviewed by the Kubernetes API, or verified if the configured identity provider
//! issued it; a session cookie holds such a token or such a user, encrypted; anonymous access must be enabled. Each
//! right is checked by a SubjectAccessReview. Requests to the Kubernetes API then use the caller's own token or
//! impersonate the caller; without either (a one-time login of the embedded mode, anonymous access) they use the
//! server's credential, for exactly what was checked.

mod codes;
pub mod oidc;
mod origin;
pub(crate) mod random;
mod review;
mod seal;
mod session;
mod task_secrets;

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
pub use origin::{Host, is_expected_host, is_same_origin, is_secure};
pub use review::{Attributes, Reviews, core_resource, ours};
pub use session::{Holder, LIFE, Sessions};
pub use task_secrets::TaskSecrets;

use crate::{
    error::{Answer, ApiError},
    state::Server,
};

/// Header with the CSRF token, required for changes made by a session.
pub const CSRF_HEADER: &str = "x-kubeopencode-csrf";

/// Failed reviews in a row that an open stream survives.
const FAILED_REVIEWS: u32 = 3;

/// A user of the Kubernetes API: a person or a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct User {
    /// User name.
    pub name: String,
    /// UID, if the authenticator reports one.
    pub uid: Option<String>,
    /// Groups, including those that Kubernetes adds.
    pub groups: Vec<String>,
    /// Further attributes of the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A token. Its debug output hides the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    /// A token from its text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The secret text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The credential with which requests to the Kubernetes API are made for a caller.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The caller's own token. Rights are reviewed.
    Token(Token),
    /// The server's credential, impersonating the user. Rights are reviewed.
    Impersonated {
        /// The end of the ID token, or of the session that it started.
        until: Timestamp,
    },
    /// The server's credential. Rights are not reviewed: everything may be read, and changed if `write`.
    Server {
        /// Changes are allowed.
        write: bool,
    },
}

/// How a caller was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// A token in the request.
    Bearer,
    /// A session cookie.
    Session {
        /// CSRF token that changes must carry.
        csrf: String,
        /// End of the session.
        expires: Timestamp,
    },
    /// Not authenticated; anonymous access is enabled.
    Anonymous,
}

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The Kubernetes user.
    pub user: Arc<User>,
    /// The credential for requests to the Kubernetes API.
    pub credential: Credential,
    /// How the caller was authenticated.
    pub via: Via,
}

impl Caller {
    /// Whether every change is refused, whatever roles allow.
    pub fn is_read_only(&self) -> bool {
        matches!(self.credential, Credential::Server { write: false })
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

/// Middleware that authenticates the caller of every request.
pub async fn authenticate(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Answer<Response> {
    let caller = authenticate_headers(&server, request.headers()).await?;
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes {
        check_csrf(&server, &caller, request.headers())?;
    }
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

async fn authenticate_headers(server: &Server, headers: &HeaderMap) -> Answer<Caller> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let token =
            bearer(value).ok_or_else(|| ApiError::unauthorized("Authorization has the form: Bearer <token>"))?;
        let (user, credential) = by_token(server, token).await?;
        return Ok(Caller { user, credential, via: Via::Bearer });
    }
    if Host::of(headers, server.options.page_host.as_deref()) == Host::Page
        && let Some(session) = server.sessions.of(headers, Timestamp::now())
    {
        let until = session.expires;
        let via = Via::Session { csrf: session.csrf, expires: until };
        let (user, credential) = match session.holder {
            Holder::Token(token) => by_token(server, Token::new(&token)).await?,
            Holder::Person { issuer, user } => {
                if server.oidc.as_ref().is_none_or(|provider| provider.settings.issuer != issuer) {
                    return Err(log_in());
                }
                (Arc::new(user), Credential::Impersonated { until })
            }
            Holder::Owner => (Arc::new(owner()), Credential::Server { write: true }),
        };
        return Ok(Caller { user, credential, via });
    }
    if server.options.anonymous
        && is_expected_host(headers, server.options.address.ip(), server.options.base_url.as_deref())
    {
        let credential = Credential::Server { write: server.options.anonymous_write };
        return Ok(Caller { user: Arc::new(anonymous()), credential, via: Via::Anonymous });
    }
    Err(log_in())
}

/// Authenticates a token: one of the identity provider by its signature, any other by a TokenReview.
pub async fn by_token(server: &Server, token: Token) -> Answer<(Arc<User>, Credential)> {
    let Some(provider) = server.oidc.as_ref().filter(|provider| provider.issued(&token)) else {
        let user = server.reviews.user(&token).await?;
        return Ok((user, Credential::Token(token)));
    };
    let authenticated = provider.authenticate(token.reveal(), None).await.map_err(|error| {
        tracing::info!(issuer = provider.settings.issuer, %error, "token refused");
        match error {
            oidc::Error::Token(_) => ApiError::unauthorized("the token is not valid here"),
            _ => ApiError::unavailable("the token cannot be verified now; try again"),
        }
    })?;
    Ok((Arc::new(authenticated.user), Credential::Impersonated { until: authenticated.until }))
}

/// Checks again that the caller of a long request is authenticated.
pub async fn is_still_authenticated(server: &Server, caller: &Caller) -> Answer<()> {
    if matches!(&caller.via, Via::Session { expires, .. } if *expires <= Timestamp::now()) {
        return Err(log_in());
    }
    match &caller.credential {
        Credential::Token(token) => server.reviews.user(token).await.map(|_| ()),
        Credential::Impersonated { until } if *until <= Timestamp::now() => Err(log_in()),
        Credential::Impersonated { .. } | Credential::Server { .. } => Ok(()),
    }
}

/// Reviews the caller of an open stream again and again. Returns why the stream must end: the caller is no longer
/// authenticated, or lacks one of `rights`.
pub async fn revoked(server: &Server, caller: &Caller, rights: &[Attributes]) -> ApiError {
    let mut failed = 0;
    loop {
        tokio::time::sleep(server.options.review_ttl).await;
        match review(server, caller, rights).await {
            Ok(()) => failed = 0,
            // A failed review revokes nothing, but rights that cannot be reviewed for long are not assumed.
            Err(error) if error.status == http::StatusCode::SERVICE_UNAVAILABLE && failed < FAILED_REVIEWS => {
                failed += 1;
            }
            Err(error) => return error,
        }
    }
}

async fn review(server: &Server, caller: &Caller, rights: &[Attributes]) -> Answer<()> {
    is_still_authenticated(server, caller).await?;
    for right in rights {
        server.reviews.require(caller, right).await?;
    }
    Ok(())
}

/// A change by a session must come from our own page, not from another page in the same browser. A bearer token proves
/// that: browsers do not add one on their own.
fn check_csrf(server: &Server, caller: &Caller, headers: &HeaderMap) -> Answer<()> {
    if caller.via == Via::Bearer {
        return Ok(());
    }
    if !is_same_origin(headers, server.options.base_url.as_deref()) {
        return Err(ApiError::forbidden("cross-site requests are refused"));
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

/// The user of the one-time link that the embedded mode prints: the owner of the machine.
fn owner() -> User {
    User { name: "owner".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_a_token() {
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
