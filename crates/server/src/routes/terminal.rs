//! Terminals: `opencode attach` in the Agent's Pod, over a WebSocket.

use std::{borrow::Cow, net::IpAddr, sync::Arc, time::Duration};

use api::{Agent, names};
use axum::{
    extract::{
        State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, rejection::WebSocketUpgradeRejection},
    },
    response::Response,
};
use futures::SinkExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{AttachParams, AttachedProcess, ListParams, TerminalSize},
};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Instant, interval, sleep, sleep_until, timeout},
};

use crate::{
    auth::{Caller, Via, core_resource, is_same_origin, ours, revoked},
    cluster,
    edge::{
        extract::{At, Params, Part},
        front::{self, slow_down},
    },
    error::{Answer, ApiError},
    live::cache::now,
    metrics::OpenStream,
    routes::{crud, share},
    state::{Server, shutdown_requested},
};

/// An idle terminal is closed after this time.
const IDLE: Duration = Duration::from_mins(30);
/// Interval of heartbeats that keep the Agent from standby while a terminal is open.
const HEARTBEAT: Duration = Duration::from_mins(1);
const CONTAINER: &str = "opencode-server";
const CONNECT: Duration = Duration::from_secs(20);
/// Attempts to start a program that exits without output, and the pause between them.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout for the exit status of a program that closed its terminal.
const STATUS: Duration = Duration::from_secs(2);

/// The size of a terminal.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Size {
    cols: Option<u16>,
    rows: Option<u16>,
}

impl Size {
    fn whole(self) -> TerminalSize {
        TerminalSize { width: self.cols.unwrap_or(80).max(1), height: self.rows.unwrap_or(24).max(1) }
    }
}

/// Text messages of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Control {
    Resize { cols: u16, rows: u16 },
}

/// How a terminal ended: close code and reason.
enum End {
    /// The program ended.
    Program(u16, Cow<'static, str>),
    /// Either side closed the terminal.
    Closed(u16, Cow<'static, str>),
}

/// `…/agents/{name}/terminal`.
pub async fn open(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(size): Params<Size>,
    headers: http::HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    if caller.via != Via::Bearer && !is_same_origin(&headers, server.options.base_url.as_deref()) {
        return Err(ApiError::forbidden("cross-site requests are refused"));
    }
    let agent: Agent = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    server.reviews.require(&caller, &core_resource("create", "pods/exec", Some(&at.namespace), None)).await?;
    let client = server.cluster.client(&caller)?;
    let upgrade = upgrade.map_err(|_| ApiError::bad_request("a terminal is a WebSocket"))?;
    let place = place_of(&server.cluster.own, &agent).await?;
    let access = Access::Caller(caller);
    Ok(upgrade.on_upgrade(move |socket| run(server, socket, client, agent, place, size, access)))
}

/// `/s/{token}/terminal`.
pub async fn open_shared(
    State(server): State<Arc<Server>>,
    from: front::Client,
    Part(token): Part,
    Params(size): Params<Size>,
    headers: http::HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    slow_down(&server, from)?;
    if !is_same_origin(&headers, server.options.base_url.as_deref()) {
        return Err(ApiError::forbidden("cross-site requests are refused"));
    }
    let agent = share::open(&server, &token, from.0).await?;
    let upgrade = upgrade.map_err(|_| ApiError::bad_request("a terminal is a WebSocket"))?;
    let (client, place) = (server.cluster.own.clone(), place_of(&server.cluster.own, &agent).await?);
    let access = Access::Link { token, from: from.0 };
    let agent = Arc::unwrap_or_clone(agent);
    Ok(upgrade.on_upgrade(move |socket| run(server, socket, client, agent, place, size, access)))
}

/// Who opened a terminal.
enum Access {
    Caller(Caller),
    Link { token: String, from: IpAddr },
}

impl Access {
    /// Returns the reason when the access to the terminal of `agent` ends.
    async fn ended(&self, server: &Server, agent: &Agent) -> &'static str {
        match self {
            Self::Caller(caller) => {
                let namespace = agent.namespace();
                let rights = [
                    ours("get", "agents", namespace.as_deref(), Some(&agent.name_any())),
                    core_resource("create", "pods/exec", namespace.as_deref(), None),
                ];
                let error = revoked(server, caller, &rights).await;
                tracing::info!(agent = agent.name_any(), error = error.message, "a terminal was closed");
                if error.status == http::StatusCode::FORBIDDEN { "access was revoked" } else { "sign in again" }
            }
            Self::Link { token, from } => loop {
                sleep(server.options.review_ttl).await;
                if share::open(server, token, *from).await.is_err() {
                    return "share link revoked";
                }
            },
        }
    }
}

/// The Pod of an Agent's server, and its address.
struct Place {
    pod: String,
    address: Option<IpAddr>,
}

/// Finds the Pod of an Agent's server.
async fn place_of(client: &Client, agent: &Agent) -> Answer<Place> {
    let name = agent.name_any();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &agent.namespace().unwrap_or_default());
    let labels = format!("{}={name},{}=server", names::labels::AGENT, names::labels::APP_COMPONENT);
    let found = pods.list(&ListParams::default().labels(&labels)).await?;
    let is_ready = |pod: &&Pod| {
        let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        pod.metadata.deletion_timestamp.is_none()
            && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let pod = found.items.iter().find(is_ready);
    let pod = pod.ok_or_else(|| ApiError::conflict(format!("Agent '{name}' has no Pod that is ready")))?;
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref()?.parse().ok());
    Ok(Place { pod: pod.name_any(), address })
}

/// The command in the Pod: OpenCode's terminal client. On one machine the server listens at the Pod's address only.
fn command(address: Option<IpAddr>, port: i32) -> [String; 3] {
    let host = address.map_or_else(
        || "localhost".to_owned(),
        |address| if address.is_ipv6() { format!("[{address}]") } else { address.to_string() },
    );
    [domain::contract::paths::OPENCODE.to_owned(), "attach".to_owned(), format!("http://{host}:{port}")]
}

async fn run(
    server: Arc<Server>,
    mut socket: WebSocket,
    client: Client,
    agent: Agent,
    place: Place,
    size: Size,
    access: Access,
) {
    let _open = OpenStream::new(&server.metrics);
    let mut attempt = 1;
    let (code, reason) = loop {
        let mut shown = false;
        let ended = match attach(&client, &agent, &place).await {
            Ok(process) => talk(&server, &mut socket, process, &agent, size, &access, &mut shown).await,
            Err(error) => {
                tracing::info!(agent = agent.name_any(), error = error.message, "terminal not opened");
                let status = json!({ "type": "status", "message": error.message }).to_string();
                // The close frame follows in any case.
                let _ = socket.send(Message::Text(status.into())).await;
                break (1011, "exec failed".into());
            }
        };
        match ended {
            // A server that has just started may refuse a client.
            End::Program(..) if !shown && attempt < ATTEMPTS => {
                attempt += 1;
                sleep(PAUSE).await;
            }
            End::Program(code, reason) | End::Closed(code, reason) => break (code, reason),
        }
    };
    // The client may be gone.
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.as_ref().into() }))).await;
}

async fn attach(client: &Client, agent: &Agent, place: &Place) -> Answer<AttachedProcess> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &agent.namespace().unwrap_or_default());
    let port = agent.spec.port.unwrap_or(names::defaults::PORT);
    let command = command(place.address, port);
    let params = AttachParams::interactive_tty().container(CONTAINER);
    let process = timeout(CONNECT, pods.exec(&place.pod, command, &params)).await;
    Ok(process.map_err(|_| ApiError::unavailable("the Pod does not answer"))??)
}

async fn talk(
    server: &Server,
    socket: &mut WebSocket,
    mut process: AttachedProcess,
    agent: &Agent,
    size: Size,
    access: &Access,
    shown: &mut bool,
) -> End {
    let (Some(mut stdin), Some(mut stdout)) = (process.stdin(), process.stdout()) else {
        return End::Closed(1011, "exec failed".into());
    };
    let mut sizes = process.terminal_size();
    if let Some(sizes) = &mut sizes {
        // A terminal of the wrong size still works.
        let _ = sizes.send(size.whole()).await;
    }
    let mut buffer = vec![0; 16 * 1024];
    let mut heartbeat = interval(HEARTBEAT);
    let access_ended = access.ended(server, agent);
    tokio::pin!(access_ended);
    let mut ending = server.ending.clone();
    let mut idle_until = Instant::now() + IDLE;
    loop {
        tokio::select! {
            read = stdout.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return end_of(process).await,
                Ok(length) => {
                    *shown = true;
                    idle_until = Instant::now() + IDLE;
                    if socket.send(Message::Binary(buffer[..length].to_vec().into())).await.is_err() {
                        return End::Closed(1000, "gone".into());
                    }
                }
            },
            message = socket.recv() => {
                idle_until = Instant::now() + IDLE;
                let typed = match message {
                    Some(Ok(Message::Binary(bytes))) => bytes.to_vec(),
                    Some(Ok(Message::Text(text))) => match serde_json::from_str(text.as_str()) {
                        Ok(Control::Resize { cols, rows }) => {
                            if let Some(sizes) = &mut sizes {
                                let _ = sizes.send(Size { cols: Some(cols), rows: Some(rows) }.whole()).await;
                            }
                            continue;
                        }
                        Err(_) => text.as_bytes().to_vec(),
                    },
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return End::Closed(1000, "gone".into()),
                };
                if stdin.write_all(&typed).await.is_err() {
                    return end_of(process).await;
                }
            }
            _ = heartbeat.tick() => send_heartbeat(server, agent).await,
            reason = &mut access_ended => return End::Closed(1008, reason.into()),
            () = sleep_until(idle_until) => return End::Closed(1000, "idle".into()),
            () = shutdown_requested(&mut ending) => return End::Closed(1001, "the server ends".into()),
        }
    }
}

/// How the program in the terminal ended. A failure is reported, because the program's output may be lost.
async fn end_of(mut process: AttachedProcess) -> End {
    let status = match process.take_status() {
        Some(status) => timeout(STATUS, status).await.ok().flatten(),
        None => None,
    };
    let ended_well = status.as_ref().is_none_or(|status| status.status.as_deref() == Some("Success"));
    if ended_well {
        return End::Program(1000, "ended".into());
    }
    let causes = status.and_then(|status| status.details?.causes).unwrap_or_default();
    let code = causes.into_iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
    let how = match code.and_then(|code| code.message?.parse::<i32>().ok()) {
        Some(code) => format!("OpenCode ended with exit code {code}"),
        None => "OpenCode was ended".to_owned(),
    };
    tracing::info!(how, "the program of a terminal failed");
    End::Program(1011, format!("{how}; connect again, or look at the Agent's log").into())
}

/// Records a heartbeat for the Agent's controller.
async fn send_heartbeat(server: &Server, agent: &Agent) {
    let path = cluster::path::<Agent>(agent.namespace().as_deref(), Some(&agent.name_any()));
    let change =
        json!({ "metadata": { "annotations": { names::annotations::LAST_CONNECTION_ACTIVE: now().to_string() } } });
    if let Err(error) = cluster::merge(&server.cluster.own, &path, &change, cluster::WriteOptions::default()).await {
        tracing::warn!(agent = agent.name_any(), error = error.message, "the heartbeat of an Agent was not recorded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_attaches_where_the_server_listens() {
        let url = |address: Option<&str>| command(address.map(|address| address.parse().unwrap()), 4096)[2].clone();
        assert_eq!(url(Some("127.1.0.3")), "http://127.1.0.3:4096");
        assert_eq!(url(Some("fd00::1")), "http://[fd00::1]:4096");
        assert_eq!(url(None), "http://localhost:4096");
    }
}
