//! Requests that become streams: exec, attach and port-forward over WebSockets.

mod channels;
mod forward;
mod spdy;
mod tunnel;

pub(crate) use channels::{Job, run};
pub(crate) use forward::forward;

use futures::SinkExt as _;
use futures::stream::SplitSink;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::api::Call;
use crate::http::{self as answers, Answer};
use crate::refusal::Refusal;

/// A connection that has become a WebSocket.
type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A client that waits for its request to become a stream.
struct Handshake {
    answer: Answer,
    upgrade: OnUpgrade,
    /// What both will speak.
    protocol: &'static str,
}

impl Handshake {
    /// Agrees on the first of `protocols` that the client knows.
    fn accept(call: Call, protocols: &[&'static str]) -> Result<Self, Refusal> {
        let wants_socket = |headers: &HeaderMap| {
            let value = headers.get(header::UPGRADE).and_then(|value| value.to_str().ok());
            value.is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
        };
        if !wants_socket(&call.parts.headers) {
            return Err(Refusal::bad_request("Upgrade request required"));
        }
        let offered: Vec<&str> = call
            .parts
            .headers
            .get_all(header::SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(str::trim))
            .collect();
        let Some(&protocol) = protocols.iter().find(|protocol| offered.contains(protocol)) else {
            let message = format!("unable to upgrade: no protocol in common, offered are {offered:?}");
            return Err(Refusal::new(StatusCode::FORBIDDEN, "Forbidden", message));
        };
        let key = call.header(header::SEC_WEBSOCKET_KEY).unwrap_or_default();
        let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Refusal::internal)?;
        let upgrade = call.upgrade.ok_or_else(|| Refusal::bad_request("Upgrade request required"))?;
        let mut answer = answers::empty(StatusCode::SWITCHING_PROTOCOLS);
        let headers = answer.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
        Ok(Self { answer, upgrade, protocol })
    }
}

/// The socket, once the answer was sent.
async fn open(upgrade: OnUpgrade) -> Option<Socket> {
    match upgrade.await {
        Ok(upgraded) => Some(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await),
        Err(error) => {
            tracing::debug!(%error, "a client went away before its stream began");
            None
        }
    }
}

/// Sends messages as they come, until there will be no more or one of them is the last.
async fn deliver(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Message>) {
    while let Some(message) = queue.recv().await {
        let last = matches!(message, Message::Close(_));
        if sink.send(message).await.is_err() || last {
            break;
        }
    }
    drop(sink.close().await);
}
