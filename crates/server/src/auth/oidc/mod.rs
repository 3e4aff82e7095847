//! People of an OpenID Connect provider: their ID tokens, and the way in for browsers.
//!
//! The provider says who somebody is; what they may do is Kubernetes' word alone. Each right is reviewed for that user
//! and those groups, and what is done at the Kubernetes API is done by impersonating them, so that a right which they
//! do not have is refused there too.
//!
//! Tokens are verified here, with the `ring` that TLS brings along: two signatures and a handful of claims are less to
//! trust than the crates at hand, which bring a second implementation of RSA and of elliptic curves.

mod claims;
mod jws;
mod login;
mod provider;

use std::{fmt, time::Duration};

pub use claims::AUTHENTICATED;
pub use login::{PATH, begin, finish};
pub use provider::{Mistake, Provider};

/// Where the way back ends.
pub const CALLBACK: &str = "/login/oidc/callback";

/// An OpenID Connect provider whose people may log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Oidc {
    /// Its address, exactly as its tokens name it.
    pub issuer: String,
    /// What this server is called there.
    pub client_id: String,
    /// What this server proves itself with; none for a public client.
    pub client_secret: Option<String>,
    /// Name on the button: Sign in with …
    pub name: String,
    /// Claim that names the user.
    pub username_claim: String,
    /// Stands before the name of every user.
    pub username_prefix: String,
    /// Claim that lists groups.
    pub groups_claim: String,
    /// Stands before the name of every group.
    pub groups_prefix: String,
    /// Scopes to ask for besides `openid`.
    pub scopes: Vec<String>,
    /// How long a browser stays logged in.
    pub session: Duration,
    /// Authorities to trust besides the system's, as PEM.
    pub authorities: Option<Vec<u8>>,
}

impl Oidc {
    /// A provider, with what is usual for everything else.
    pub fn new(issuer: &str, client_id: &str) -> Self {
        Self {
            issuer: issuer.to_owned(),
            client_id: client_id.to_owned(),
            client_secret: None,
            name: "OpenID Connect".to_owned(),
            username_claim: "email".to_owned(),
            username_prefix: "oidc:".to_owned(),
            groups_claim: "groups".to_owned(),
            groups_prefix: "oidc:".to_owned(),
            scopes: vec!["profile".to_owned(), "email".to_owned()],
            session: Duration::from_hours(8),
            authorities: None,
        }
    }
}

impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oidc").field("issuer", &self.issuer).field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_client_is_not_shown() {
        let oidc = Oidc { client_secret: Some("hunter2".to_owned()), ..Oidc::new("https://id.example", "page") };
        assert!(!format!("{oidc:?}").contains("hunter2"));
    }
}
