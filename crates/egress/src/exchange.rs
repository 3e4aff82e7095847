//! One request with credentials to an address that a user named, and its answer.

use std::{net::IpAddr, time::Duration};

use reqwest::{ClientBuilder, Method, Url, header::HeaderMap, redirect};

use crate::{
    address::{Policy, Refused, check_url},
    authorities::{Authorities, AuthoritiesError},
    http::{BodyError, Route, RouteError, TransferError, guard, read_body},
};

/// Time to connect. Longer than any healthy server needs.
const CONNECT: Duration = Duration::from_secs(10);

/// A request. The headers may contain credentials.
pub struct Outgoing<'a> {
    pub method: &'a str,
    pub url: &'a str,
    pub headers: &'a [(&'static str, String)],
    pub body: Option<String>,
}

/// Why there is no answer. Contains no header and no body.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("the address is not a valid URL")]
    Url,
    #[error("the address {0}")]
    Refused(#[from] Refused),
    #[error("a header cannot be sent")]
    Header,
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    #[error(transparent)]
    Transfer(TransferError),
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// Sends a request within `time` and returns the status and at most `limit` bytes of the answer.
///
/// Redirects are not followed: headers with credentials would be sent to the next server too. Servers on this machine
/// are reached without a proxy.
pub async fn exchange(
    route: &Route,
    policy: &Policy,
    outgoing: Outgoing<'_>,
    time: Duration,
    limit: u64,
) -> Result<(u16, Vec<u8>), ExchangeError> {
    send(route.http_client(policy)?, policy, outgoing, time, limit).await
}

/// The same from a Pod: with its certificates, and the proxies of its environment.
pub async fn exchange_from_pod(
    authorities: &Authorities,
    policy: &Policy,
    outgoing: Outgoing<'_>,
    time: Duration,
    limit: u64,
) -> Result<(u16, Vec<u8>), ExchangeError> {
    send(guard(authorities.http_client()?, policy), policy, outgoing, time, limit).await
}

async fn send(
    builder: ClientBuilder,
    policy: &Policy,
    outgoing: Outgoing<'_>,
    time: Duration,
    limit: u64,
) -> Result<(u16, Vec<u8>), ExchangeError> {
    let url = Url::parse(outgoing.url).map_err(|_| ExchangeError::Url)?;
    check_url(&url, policy)?;
    let mut builder = builder.redirect(redirect::Policy::none()).connect_timeout(CONNECT).timeout(time);
    if is_this_machine(&url) {
        builder = builder.no_proxy();
    }
    let broken = |error: reqwest::Error| ExchangeError::Transfer(TransferError::from(&error));
    let client = builder.build().map_err(broken)?;
    let method = Method::from_bytes(outgoing.method.as_bytes()).map_err(|_| ExchangeError::Header)?;
    let mut headers = HeaderMap::new();
    for (name, value) in outgoing.headers {
        let mut value = reqwest::header::HeaderValue::from_str(value).map_err(|_| ExchangeError::Header)?;
        value.set_sensitive(true);
        headers.insert(*name, value);
    }
    let mut request = client.request(method, url).headers(headers);
    if let Some(body) = outgoing.body {
        request = request.body(body);
    }
    let response = request.send().await.map_err(broken)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    read_body(response, limit, |piece| {
        body.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    Ok((status, body))
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::Loopback;

    /// Answers one request with `answer` and returns the request.
    async fn serve(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        (url, served)
    }

    async fn send(url: &str, loopback: Loopback, limit: u64) -> Result<(u16, Vec<u8>), ExchangeError> {
        let headers = [("x-api-key", "k3y".to_owned())];
        let outgoing = Outgoing { method: "POST", url, headers: &headers, body: Some("{}".to_owned()) };
        exchange(&Route::default(), &loopback.into(), outgoing, Duration::from_mins(1), limit).await
    }

    #[tokio::test]
    async fn headers_and_body_are_sent_and_a_redirect_is_an_answer() {
        let (url, served) =
            serve("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 2\r\n\r\nok").await;
        assert_eq!(send(&url, Loopback::Allowed, 100).await.unwrap(), (302, b"ok".to_vec()));
        let request = served.await.unwrap();
        assert!(request.starts_with("POST /v1 ") && request.contains("x-api-key: k3y"), "{request}");
    }

    #[tokio::test]
    async fn this_machine_is_refused_and_a_long_answer_is_cut() {
        let refused = send("http://127.0.0.1:9/v1", Loopback::Refused, 100).await.unwrap_err();
        assert!(matches!(refused, ExchangeError::Refused(Refused::Loopback)), "{refused}");
        let refused = send("http://localhost:9/v1", Loopback::Refused, 100).await.unwrap_err().to_string();
        assert!(refused.contains("is this machine"), "{refused}");
        let refused = send("http://169.254.169.254/", Loopback::Allowed, 100).await.unwrap_err();
        assert!(matches!(refused, ExchangeError::Refused(Refused::LinkLocal)), "{refused}");
        let (url, _served) = serve("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").await;
        assert!(matches!(send(&url, Loopback::Allowed, 2).await.unwrap_err(), ExchangeError::Body(_)));
    }
}
