//! Asking containers whether they are well, and the hooks of their lives.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe, TCPSocketAction},
    apimachinery::pkg::util::intstr::IntOrString,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::Instant,
};

use crate::{
    runtime::{Runtime, Target},
    tls,
};

/// What is asked before the first answer is good comes sooner than the probe says, and counts for nothing: a server that
/// starts in half a second need not wait for the next round.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// As much of an answer as a person wants to read.
const LONGEST_ANSWER: usize = 1024;

/// Which probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    /// As people read it in an event.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    /// The probe of this kind.
    pub(crate) fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// What a probe or hook does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Exec(Vec<String>),
    Http {
        /// Whether the server speaks TLS.
        tls: bool,
        host: String,
        port: u16,
        path: String,
        headers: Vec<(String, String)>,
    },
    Tcp {
        host: String,
        port: u16,
    },
    Sleep(Duration),
    /// Something that this node cannot do; the text says so.
    Unavailable(String),
}

impl Action {
    /// What a probe does in a container of a Pod with this address.
    pub(crate) fn of_probe(probe: &Probe, container: &Container, address: Ipv4Addr) -> Self {
        if probe.grpc.is_some() {
            return Self::Unavailable("this node has no gRPC probes; use an exec or tcpSocket probe".to_owned());
        }
        let (exec, http, tcp) = (probe.exec.as_ref(), probe.http_get.as_ref(), probe.tcp_socket.as_ref());
        Self::of(exec, http, tcp, container, address)
    }

    /// What a hook does.
    pub(crate) fn of_hook(hook: &LifecycleHandler, container: &Container, address: Ipv4Addr) -> Self {
        if let Some(sleep) = &hook.sleep {
            return Self::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0)));
        }
        let (exec, http, tcp) = (hook.exec.as_ref(), hook.http_get.as_ref(), hook.tcp_socket.as_ref());
        Self::of(exec, http, tcp, container, address)
    }

    fn of(
        exec: Option<&ExecAction>,
        http: Option<&HTTPGetAction>,
        tcp: Option<&TCPSocketAction>,
        container: &Container,
        address: Ipv4Addr,
    ) -> Self {
        let own = |host: Option<&String>| {
            host.filter(|host| !host.is_empty()).cloned().unwrap_or_else(|| address.to_string())
        };
        let unknown = |port: &IntOrString| Self::Unavailable(format!("the container has no port {port:?}"));
        if let Some(exec) = exec {
            return Self::Exec(exec.command.clone().unwrap_or_default());
        }
        if let Some(http) = http {
            let tls = http.scheme.as_deref() == Some("HTTPS");
            let Some(port) = port(&http.port, container) else { return unknown(&http.port) };
            let headers = http.http_headers.iter().flatten().map(|header| (header.name.clone(), header.value.clone()));
            let path = http.path.clone().filter(|path| path.starts_with('/'));
            let path = path.unwrap_or_else(|| format!("/{}", http.path.as_deref().unwrap_or_default()));
            return Self::Http { tls, host: own(http.host.as_ref()), port, path, headers: headers.collect() };
        }
        match tcp {
            Some(tcp) => match port(&tcp.port, container) {
                Some(port) => Self::Tcp { host: own(tcp.host.as_ref()), port },
                None => unknown(&tcp.port),
            },
            None => Self::Unavailable("it says nothing to do".to_owned()),
        }
    }
}

/// A port by number or by name.
fn port(port: &IntOrString, container: &Container) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            named.map(|port| port.container_port).or_else(|| name.parse().ok())?
        }
    };
    u16::try_from(number).ok().filter(|number| *number != 0)
}

/// Does things to a container.
#[derive(Clone, Debug)]
pub(crate) struct Prober {
    pub(crate) runtime: Runtime,
    pub(crate) target: Target,
}

impl Prober {
    /// Does it once. The error is for people.
    pub(crate) async fn act(&self, action: &Action, limit: Duration) -> Result<(), String> {
        let late = || format!("no answer within {} s", limit.as_secs());
        match action {
            Action::Exec(words) => tokio::time::timeout(limit, self.exec(words)).await.unwrap_or_else(|_| Err(late())),
            Action::Http { tls, host, port, path, headers } => {
                let asked = async {
                    let stream = connect(host, *port).await?;
                    if *tls {
                        let stream = tls::unverified(stream, host).await.map_err(|error| error.to_string())?;
                        http(stream, "https", &format!("{host}:{port}"), path, headers).await
                    } else {
                        http(stream, "http", &format!("{host}:{port}"), path, headers).await
                    }
                };
                tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(late()))
            }
            Action::Tcp { host, port } => {
                let connected = tokio::time::timeout(limit, connect(host, *port)).await;
                connected.unwrap_or_else(|_| Err(late())).map(drop)
            }
            Action::Sleep(time) => {
                tokio::time::sleep((*time).min(limit)).await;
                Ok(())
            }
            Action::Unavailable(problem) => Err(problem.clone()),
        }
    }

    async fn exec(&self, words: &[String]) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("the command could not be started: {error}");
        let mut child = self.runtime.join(&self.target, words.to_vec(), None).await.map_err(failed)?;
        drop(child.stdin.take());
        let output = child.wait_with_output().await.map_err(failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        let said = String::from_utf8_lossy(&said[..said.len().min(LONGEST_ANSWER)]).trim().to_owned();
        Err(if said.is_empty() { output.status.to_string() } else { said })
    }
}

/// Connects to an address or, which is rare, to a name.
async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let connected = match host.parse::<IpAddr>() {
        Ok(address) => TcpStream::connect(SocketAddr::new(address, port)).await,
        Err(_) => TcpStream::connect((host, port)).await,
    };
    connected.map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

async fn http(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    scheme: &str,
    host: &str,
    path: &str,
    headers: &[(String, String)],
) -> Result<(), String> {
    let own: HashMap<String, &str> =
        headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
    let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in [("host", host), ("user-agent", "kube-probe/kubeopencode"), ("accept", "*/*")] {
        if !own.contains_key(name) {
            request.extend([name, ": ", value, "\r\n"]);
        }
    }
    for (name, value) in headers.iter().filter(|(name, value)| !format!("{name}{value}").contains(['\r', '\n'])) {
        request.extend([name.as_str(), ": ", value.as_str(), "\r\n"]);
    }
    request.push_str("\r\n");
    let lost = |error: std::io::Error| format!("GET {scheme}://{host}{path}: {error}");
    stream.write_all(request.as_bytes()).await.map_err(lost)?;
    let mut answer = Vec::new();
    // "HTTP/1.1 200" is all that matters.
    while answer.len() < 12 && stream.read_buf(&mut answer).await.map_err(lost)? > 0 {}
    let code =
        answer.get(9..12).and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err(format!("GET {scheme}://{host}{path}: the answer is no HTTP")),
    }
}

/// How often and how patiently a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rhythm {
    delay: Duration,
    period: Duration,
    timeout: Duration,
    successes: u32,
    failures: u32,
}

impl Rhythm {
    fn of(probe: &Probe) -> Self {
        let number = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        let seconds = |value: Option<i32>, default: u32| Duration::from_secs(number(value, default).into());
        Self {
            delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            successes: number(probe.success_threshold, 1),
            failures: number(probe.failure_threshold, 3),
        }
    }
}

/// Counts answers until there are enough of one kind.
#[derive(Debug, Default)]
struct Counter {
    good: u32,
    bad: u32,
}

impl Counter {
    fn note(&mut self, good: bool, rhythm: &Rhythm) -> Option<bool> {
        if good {
            (self.good, self.bad) = (self.good + 1, 0);
            (self.good >= rhythm.successes).then_some(true)
        } else {
            (self.good, self.bad) = (0, self.bad + 1);
            (self.bad >= rhythm.failures).then_some(false)
        }
    }
}

/// Asks again and again, and tells what changed: `Ok` when all is well, the problem when it is not. A startup probe ends
/// with its first verdict.
pub(crate) async fn watch(prober: Prober, probe: Probe, action: Action, kind: Kind, tell: impl Fn(Result<(), String>)) {
    let rhythm = Rhythm::of(&probe);
    let mut counter = Counter::default();
    let mut verdict = None;
    let mut pause = FIRST_PAUSE;
    tokio::time::sleep(rhythm.delay).await;
    let mut round = Instant::now();
    loop {
        let counts = Instant::now() >= round;
        if counts {
            round += rhythm.period;
        }
        let answer = prober.act(&action, rhythm.timeout).await;
        if (counts || answer.is_ok())
            && let Some(good) = counter.note(answer.is_ok(), &rhythm)
            && verdict != Some(good)
        {
            verdict = Some(good);
            tell(answer);
            if kind == Kind::Startup {
                return;
            }
        }
        let eager = kind != Kind::Liveness && verdict != Some(true) && counter.good == 0;
        if eager {
            tokio::time::sleep_until(round.min(Instant::now() + pause)).await;
            pause *= 2;
        } else {
            tokio::time::sleep_until(round).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container() -> Container {
        serde_json::from_value(json!({"name": "c", "ports": [{"name": "web", "containerPort": 8080}]})).unwrap()
    }

    #[test]
    fn an_action_knows_the_address_and_the_port() {
        let check = |probe: serde_json::Value, expected: Action| {
            let probe: Probe = serde_json::from_value(probe).unwrap();
            assert_eq!(Action::of_probe(&probe, &container(), Ipv4Addr::new(127, 80, 0, 1)), expected);
        };
        check(json!({"exec": {"command": ["true"]}}), Action::Exec(vec!["true".into()]));
        check(json!({"tcpSocket": {"port": "web"}}), Action::Tcp { host: "127.80.0.1".into(), port: 8080 });
        let headers = vec![("X".to_owned(), "y".to_owned())];
        check(
            json!({"httpGet": {"port": 81, "path": "/ok", "host": "127.0.0.1", "httpHeaders": [{"name": "X", "value": "y"}]}}),
            Action::Http { tls: false, host: "127.0.0.1".into(), port: 81, path: "/ok".into(), headers },
        );
        check(
            json!({"httpGet": {"port": "web", "scheme": "HTTPS"}}),
            Action::Http { tls: true, host: "127.80.0.1".into(), port: 8080, path: "/".into(), headers: Vec::new() },
        );
        let probe: Probe = serde_json::from_value(json!({"tcpSocket": {"port": "other"}})).unwrap();
        assert!(matches!(Action::of_probe(&probe, &container(), Ipv4Addr::LOCALHOST), Action::Unavailable(_)));
    }

    #[test]
    fn a_verdict_needs_enough_answers_in_a_row() {
        let probe = Probe { failure_threshold: Some(3), success_threshold: Some(2), ..Probe::default() };
        let rhythm = Rhythm::of(&probe);
        let mut counter = Counter::default();
        let verdicts: Vec<_> = [false, false, true, false, false, false, true, true]
            .into_iter()
            .map(|good| counter.note(good, &rhythm))
            .collect();
        assert_eq!(verdicts, [None, None, None, None, None, Some(false), None, Some(true)]);
    }
}
