//! Address and credentials of a server, and the client for direct connections.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Url;

use crate::Error;

/// Time limit of a connection attempt.
pub const CONNECT: Duration = Duration::from_secs(5);
/// Default user of OpenCode's server.
pub const USER: &str = "opencode";

#[derive(Clone, Debug)]
pub struct Server {
    pub url: Url,
    /// User and password; `None` if the server has none.
    pub credentials: Option<Credentials>,
    /// Directory on the server in which sessions work; `None` is the server's own.
    pub directory: Option<String>,
}

impl Server {
    /// The server at a URL such as `http://10.0.0.7:4096`, with the password of the default user.
    pub fn at(url: &str, password: Option<String>) -> Result<Self, Error> {
        let url = Url::parse(url).map_err(|_| Error::Address(url.to_owned()))?;
        Ok(Self { url, credentials: password.map(Credentials::of_default_user), directory: None })
    }
}

/// User and password of a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub username: String,
    pub password: String,
}

impl Credentials {
    /// The default user with this password.
    pub fn of_default_user(password: String) -> Self {
        Self { username: USER.to_owned(), password }
    }

    /// Value of the `Authorization` header, for callers that forward a request themselves.
    pub fn authorization(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.username, self.password)))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// An HTTP client for servers inside the cluster or at the end of a tunnel: plain HTTP, no proxy, no redirects. Without
/// certificates, so those of the system are not loaded.
pub fn direct() -> Result<reqwest::Client, Error> {
    // A second installation fails harmlessly: the same provider is there already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT)
        .user_agent(concat!("kubeopencode/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| Error::Setup(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_encoded_for_the_header_and_absent_from_debug_output() {
        let server = Server::at("http://127.0.0.1:4096", Some("sesame".to_owned())).unwrap();
        let credentials = server.credentials.clone().unwrap();
        assert_eq!(credentials.authorization(), "Basic b3BlbmNvZGU6c2VzYW1l");
        assert!(!format!("{server:?}").contains("sesame"));
        assert_eq!(Server::at("nowhere", None).unwrap_err(), Error::Address("nowhere".to_owned()));
    }
}
