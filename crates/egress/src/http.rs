//! HTTP clients that connect for a user: proxies, certificates, the address policy, and bodies with a size limit.

use std::{error::Error as _, io};

use futures::StreamExt as _;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy, Response};

use crate::{
    address::{Policy, PolicyResolver, RefusedTarget, redirects},
    userinfo::hide_userinfo,
};

/// A builder of HTTP clients with our cryptography and our name.
pub(crate) fn builder() -> ClientBuilder {
    // A second installation fails harmlessly: the same provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().user_agent(concat!("kubeopencode/", env!("CARGO_PKG_VERSION")))
}

/// Applies the address policy: to every name that the client resolves and to every redirect that it follows. Addresses
/// that are written in a URL reach no resolver: check them with [`crate::check_url`].
pub fn guard(builder: ClientBuilder, policy: &Policy) -> ClientBuilder {
    builder.dns_resolver(PolicyResolver(policy.clone())).redirect(redirects(policy.clone()))
}

/// Proxies and certificates for requests to the outside. The default follows the settings of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Proxy of http requests; `None` is direct.
    pub http_proxy: Option<String>,
    /// Proxy of https requests; `None` is direct.
    pub https_proxy: Option<String>,
    /// Hosts that are reached without a proxy, separated by commas.
    pub no_proxy: String,
    /// PEM certificates, trusted in addition to the system's.
    pub authorities: Option<Vec<u8>>,
}

/// A route is invalid. Without the value, which may contain credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be used")]
pub struct RouteError(&'static str);

impl Route {
    /// A builder of HTTP clients that use this route and obey the address policy.
    pub fn http_client(&self, policy: &Policy) -> Result<ClientBuilder, RouteError> {
        let mut builder = guard(builder(), policy);
        if let Some(pem) = &self.authorities {
            let certificates = Certificate::from_pem_bundle(pem).ok().filter(|found| !found.is_empty());
            builder = builder.tls_certs_merge(certificates.ok_or(RouteError("caBundle"))?);
        }
        let no_proxy = NoProxy::from_string(&self.no_proxy);
        let address = |address: &Option<String>| address.clone().filter(|address| !address.is_empty());
        if let Some(proxy) = address(&self.http_proxy) {
            let proxy = Proxy::http(proxy).map_err(|_| RouteError("proxy.httpProxy"))?;
            builder = builder.proxy(proxy.no_proxy(no_proxy.clone()));
        }
        if let Some(proxy) = address(&self.https_proxy) {
            let proxy = Proxy::https(proxy).map_err(|_| RouteError("proxy.httpsProxy"))?;
            builder = builder.proxy(proxy.no_proxy(no_proxy));
        }
        Ok(builder)
    }
}

/// Why a request or an answer failed. Contains no URL and no credentials.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransferError {
    /// The address policy refused the target.
    #[error(transparent)]
    Refused(RefusedTarget),
    /// The time limit was exceeded.
    #[error("{0}")]
    TimedOut(String),
    /// No connection.
    #[error("{0}")]
    Connect(String),
    /// Any other failure.
    #[error("{0}")]
    Broken(String),
}

impl From<&reqwest::Error> for TransferError {
    fn from(error: &reqwest::Error) -> Self {
        if let Some(refused) = RefusedTarget::behind(error) {
            return Self::Refused(refused.clone());
        }
        // The outer texts repeat the URL.
        let mut innermost = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            innermost = inner.to_string();
            cause = inner.source();
        }
        let text = hide_userinfo(&innermost);
        if error.is_timeout() {
            Self::TimedOut(text)
        } else if error.is_connect() {
            Self::Connect(text)
        } else {
            Self::Broken(text)
        }
    }
}

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body has more bytes than allowed.
    #[error("the answer has more than {0} bytes")]
    TooLong(u64),
    /// The connection failed.
    #[error(transparent)]
    Transfer(TransferError),
    /// The receiver of the bytes failed.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Passes the body of a response to `write`, in chunks. Returns its length. `write` never gets more than `limit` bytes
/// in total.
pub async fn read_body(
    response: Response,
    limit: u64,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<u64, BodyError> {
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(BodyError::TooLong(limit));
    }
    let mut length = 0;
    let mut body = response.bytes_stream();
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|error| BodyError::Transfer(TransferError::from(&error)))?;
        length += piece.len() as u64;
        if length > limit {
            return Err(BodyError::TooLong(limit));
        }
        write(&piece)?;
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loopback;

    #[test]
    fn a_route_that_cannot_be_used_names_the_field_and_not_its_value() {
        let broken = |route: Route| route.http_client(&Loopback::Refused.into()).map(drop).unwrap_err().to_string();
        let proxy = || Some("http://me:hunter2@[broken".to_owned());
        assert_eq!(broken(Route { http_proxy: proxy(), ..Route::default() }), "proxy.httpProxy cannot be used");
        assert_eq!(broken(Route { https_proxy: proxy(), ..Route::default() }), "proxy.httpsProxy cannot be used");
        let authorities = Some(b"not a certificate".to_vec());
        assert_eq!(broken(Route { authorities, ..Route::default() }), "caBundle cannot be used");
    }
}
