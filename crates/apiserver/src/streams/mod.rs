//! Streaming requests: exec, attach and port-forward, over WebSocket and SPDY.
//!
//! | | WebSocket | SPDY |
//! |---|---|---|
//! | exec, attach | [`channels`] | [`remote`] (kubectl before 1.31) |
//! | port-forward | [`forward`] | [`tunnel`] (kubectl; since 1.31 inside a WebSocket) |

mod channels;
mod forward;
mod job;
mod remote;
mod spdy;
mod transport;
mod tunnel;

pub(crate) use channels::run;
pub(crate) use forward::forward;
pub(crate) use job::Job;

use futures::SinkExt as _;
use futures::stream::SplitSink;
use http::{HeaderName, HeaderValue, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::api::Call;
use crate::http::{self as responses, ApiResponse};
use crate::status_error::StatusError;

const SPDY: &str = "SPDY/3.1";
/// The header in which SPDY clients offer stream protocols.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The negotiated transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// A WebSocket with this subprotocol.
    Socket(&'static str),
    Spdy,
}

/// A client that waits for the protocol switch.
struct Handshake {
    answer: ApiResponse,
    upgrade: OnUpgrade,
    carrier: Carrier,
}

impl Handshake {
    /// Negotiates the first of `protocols` that the client offers for a WebSocket, or `spdy` for SPDY.
    fn accept(call: Call, protocols: &[&'static str], spdy: &'static str) -> Result<Self, StatusError> {
        let asked = call.header(header::UPGRADE).unwrap_or_default();
        let (carrier, answer) = if asked.eq_ignore_ascii_case("websocket") {
            let protocol = agree(&call, &header::SEC_WEBSOCKET_PROTOCOL, protocols)?;
            let key = call.header(header::SEC_WEBSOCKET_KEY).unwrap_or_default();
            let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(StatusError::internal)?;
            let mut answer = switch("websocket", header::SEC_WEBSOCKET_PROTOCOL, protocol);
            answer.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accept);
            (Carrier::Socket(protocol), answer)
        } else if asked.eq_ignore_ascii_case(SPDY) {
            let protocol = agree(&call, &STREAM_PROTOCOL, &[spdy])?;
            (Carrier::Spdy, switch(SPDY, STREAM_PROTOCOL, protocol))
        } else {
            return Err(StatusError::bad_request("Upgrade request required"));
        };
        let upgrade = call.upgrade.ok_or_else(|| StatusError::bad_request("Upgrade request required"))?;
        Ok(Self { answer, upgrade, carrier })
    }
}

/// The first of `protocols` that the client offers in a header.
fn agree(call: &Call, header: &HeaderName, protocols: &[&'static str]) -> Result<&'static str, StatusError> {
    let offered: Vec<&str> = call
        .parts
        .headers
        .get_all(header)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim))
        .collect();
    protocols.iter().find(|protocol| offered.contains(protocol)).copied().ok_or_else(|| {
        let message = format!("unable to upgrade: no protocol in common, offered are {offered:?}");
        StatusError::new(StatusCode::FORBIDDEN, "Forbidden", message)
    })
}

/// The 101 response.
fn switch(carrier: &'static str, header: HeaderName, protocol: &'static str) -> ApiResponse {
    let mut answer = responses::empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = answer.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static(carrier));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header, HeaderValue::from_static(protocol));
    answer
}

/// The connection after the response is sent.
async fn upgraded(upgrade: OnUpgrade) -> Option<Upgraded> {
    upgrade.await.inspect_err(|error| tracing::debug!(%error, "client disconnected before the protocol switch")).ok()
}

async fn socket(connection: Upgraded) -> Socket {
    WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, None).await
}

/// Sends messages until the queue closes or a close frame is sent.
async fn deliver(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Message>) {
    while let Some(message) = queue.recv().await {
        let last = matches!(message, Message::Close(_));
        if sink.send(message).await.is_err() || last {
            break;
        }
    }
    drop(sink.close().await);
}
