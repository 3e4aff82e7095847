//! Authentication by an OpenID Connect provider: ID tokens as bearer tokens, and the login of browsers.
//!
//! The provider authenticates; Kubernetes authorizes. Each request is reviewed for the user and groups of the token,
//! and requests to the Kubernetes API impersonate them, so that the API server checks the same rights again.

mod claims;
mod jws;
mod login;
mod provider;

use std::{fmt, time::Duration};

pub use claims::AUTHENTICATED;
pub use login::{PATH, begin, finish};
pub use provider::{Error, Provider};

/// Path to which the provider sends browsers back.
pub const CALLBACK: &str = "/login/oidc/callback";

/// An OpenID Connect provider whose users may log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Oidc {
    /// Address of the provider, exactly as the `iss` claim of its tokens.
    pub issuer: String,
    /// ID of this server at the provider.
    pub client_id: String,
    /// Secret of this server; none for a public client.
    pub client_secret: Option<String>,
    /// Display name: Sign in with …
    pub name: String,
    /// Claim with the user name.
    pub username_claim: String,
    /// Prefix of user names, so that they differ from other users of the cluster.
    pub username_prefix: String,
    /// Claim with the groups.
    pub groups_claim: String,
    /// Prefix of group names.
    pub groups_prefix: String,
    /// Scopes to request besides `openid`.
    pub scopes: Vec<String>,
    /// How long a browser stays logged in.
    pub session: Duration,
    /// Certificate authorities to trust besides the system's, as PEM.
    pub authorities: Option<Vec<u8>>,
}

impl Oidc {
    /// A provider with default settings.
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
