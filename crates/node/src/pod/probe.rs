//! Probes and lifecycle hooks.

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
    network::tls,
    runtime::{Runtime, Target},
};

/// Before the first success, probes run at this interval and failures do not count, so that a server that starts in
/// half a second does not wait for the next period.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
/// Maximum length of a probe's output in an event, in bytes.
const MAX_OUTPUT: u64 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    /// The name as events show it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    pub(crate) fn of(self, container: &Container) -> Option<&Probe> {
        match self {
            Self::Startup => container.startup_probe.as_ref(),
            Self::Liveness => container.liveness_probe.as_ref(),
            Self::Readiness => container.readiness_probe.as_ref(),
        }
    }
}

/// The action of a probe or hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Exec(Vec<String>),
    Http {
        /// Whether to use TLS.
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
    /// An action that this node does not support, and why.
    Unavailable(String),
}

impl Action {
    pub(crate) fn of_probe(probe: &Probe, container: &Container, address: Ipv4Addr) -> Self {
        if probe.grpc.is_some() {
            return Self::Unavailable(
                "gRPC probes are not supported on this node: use an exec or tcpSocket probe".to_owned(),
            );
        }
        let (exec, http, tcp) = (probe.exec.as_ref(), probe.http_get.as_ref(), probe.tcp_socket.as_ref());
        Self::of(exec, http, tcp, container, address)
    }

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
            None => Self::Unavailable("no action is configured".to_owned()),
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

/// Executes actions on a container.
#[derive(Clone, Debug)]
pub(crate) struct Prober {
    pub(crate) runtime: Runtime,
    pub(crate) target: Target,
}

impl Prober {
    /// Executes an action once. The error is a message for events.
    pub(crate) async fn execute(&self, action: &Action, limit: Duration) -> Result<(), String> {
        let late = || format!("no response within {} s", limit.as_secs());
        match action {
            Action::Exec(command) => {
                tokio::time::timeout(limit, self.exec(command)).await.unwrap_or_else(|_| Err(late()))
            }
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

    async fn exec(&self, command: &[String]) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot start the command: {error}");
        let mut child = self.runtime.join(&self.target, command.to_vec(), None).await.map_err(failed)?;
        drop(child.stdin.take());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr, status) = tokio::join!(beginning(stdout), beginning(stderr), child.wait());
        let status = status.map_err(failed)?;
        if status.success() {
            return Ok(());
        }
        let output = if stderr.is_empty() { stdout } else { stderr };
        let output = String::from_utf8_lossy(&output).trim().to_owned();
        Err(if output.is_empty() { status.to_string() } else { output })
    }
}

/// The first bytes of an output. The rest is read and discarded: a command may print without end.
async fn beginning(output: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut output) = output {
        // A read error ends the output.
        let _ = (&mut output).take(MAX_OUTPUT).read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
    }
    kept
}

/// Connects to an address or, rarely, to a name.
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
    // Only the status code is needed: "HTTP/1.1 200".
    while answer.len() < 12 && stream.read_buf(&mut answer).await.map_err(lost)? > 0 {}
    let code =
        answer.get(9..12).and_then(|code| std::str::from_utf8(code).ok()).and_then(|code| code.parse::<u16>().ok());
    match code {
        Some(200..=399) => Ok(()),
        Some(code) => Err(format!("HTTP probe failed with statuscode: {code}")),
        None => Err(format!("GET {scheme}://{host}{path}: the response is not HTTP")),
    }
}

/// The timing and thresholds of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProbeTiming {
    delay: Duration,
    period: Duration,
    timeout: Duration,
    successes: u32,
    failures: u32,
}

impl ProbeTiming {
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

/// Counts results in a row until a threshold is reached.
#[derive(Debug, Default)]
struct Counter {
    good: u32,
    bad: u32,
}

impl Counter {
    fn note(&mut self, good: bool, timing: &ProbeTiming) -> Option<bool> {
        if good {
            (self.good, self.bad) = (self.good + 1, 0);
            (self.good >= timing.successes).then_some(true)
        } else {
            (self.good, self.bad) = (0, self.bad + 1);
            (self.bad >= timing.failures).then_some(false)
        }
    }
}

/// Runs a probe periodically and reports changes: `Ok` on success, the problem on failure. A startup probe ends with
/// its first result.
pub(crate) async fn watch(
    prober: Prober,
    probe: Probe,
    action: Action,
    kind: Kind,
    on_change: impl Fn(Result<(), String>),
) {
    let timing = ProbeTiming::of(&probe);
    let mut counter = Counter::default();
    let mut verdict = None;
    let mut pause = FIRST_PAUSE;
    tokio::time::sleep(timing.delay).await;
    let mut round = Instant::now();
    loop {
        let counts = Instant::now() >= round;
        if counts {
            round += timing.period;
        }
        let answer = prober.execute(&action, timing.timeout).await;
        if (counts || answer.is_ok())
            && let Some(good) = counter.note(answer.is_ok(), &timing)
            && verdict != Some(good)
        {
            verdict = Some(good);
            on_change(answer);
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

    #[tokio::test]
    async fn the_output_of_a_command_is_read_to_its_end_but_not_kept() {
        let (mut writer, reader) = tokio::io::duplex(4096);
        let (kept, written) = tokio::join!(beginning(Some(reader)), async move {
            let chunk = [b'x'; 4096];
            for _ in 0..1000 {
                writer.write_all(&chunk).await?;
            }
            Ok::<_, std::io::Error>(())
        });
        written.unwrap();
        assert!(kept == vec![b'x'; 1024] && kept.capacity() < 1 << 14, "{}", kept.capacity());
        assert_eq!(beginning(Some(b"short".as_slice())).await, b"short");
    }

    #[test]
    fn a_verdict_needs_enough_answers_in_a_row() {
        let probe = Probe { failure_threshold: Some(3), success_threshold: Some(2), ..Probe::default() };
        let timing = ProbeTiming::of(&probe);
        let mut counter = Counter::default();
        let verdicts: Vec<_> = [false, false, true, false, false, false, true, true]
            .into_iter()
            .map(|good| counter.note(good, &timing))
            .collect();
        assert_eq!(verdicts, [None, None, None, None, None, Some(false), None, Some(true)]);
    }
}
