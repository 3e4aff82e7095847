//! `kubectl port-forward`.

use std::{process::Stdio, time::Duration};

use anyhow::{Context as _, ensure};
use blackbox::{cases, runner::Case};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::TcpStream,
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use crate::world::World;

pub const CASES: &[Case] = cases![ports_are_forwarded_in_both_directions_at_once, a_closed_port_is_named];

/// Everything happens at once; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);
/// More than fits into everything between the two ends together, so that a side that waits for the other is noticed.
const MUCH: usize = 8 << 20;

/// A Pod with an echo server on port 7000.
pub const ECHO: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: python
    command: [python3, -u, -c]
    args:
    - |
      import os, socketserver
      class Echo(socketserver.BaseRequestHandler):
          def handle(self):
              while data := self.request.recv(65536):
                  self.request.sendall(data)
              self.request.sendall(b"the end")
      class Server(socketserver.ThreadingTCPServer):
          allow_reuse_address = True
      Server((os.environ["ADDRESS"], 7000), Echo).serve_forever()
    env: [{name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    readinessProbe: {tcpSocket: {port: 7000}, periodSeconds: 1}
"#;

/// kubectl, which forwards a port.
struct Forwarding {
    child: Child,
    port: u16,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Forwarding {
    async fn start(world: &World, target: &str, port: u16) -> anyhow::Result<Self> {
        Self::run(world.kubectl(&["port-forward", target, &format!(":{port}")])).await
    }

    /// As kubectl spoke before 1.31.
    async fn older(world: &World, target: &str, port: u16) -> anyhow::Result<Self> {
        let mut command = world.kubectl(&["port-forward", target, &format!(":{port}")]);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false");
        Self::run(command).await
    }

    async fn run(mut command: Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let first = timeout(LIMIT, lines.next_line()).await.context("kubectl prints nothing")??;
        let Some(first) = first else {
            let output = child.wait_with_output().await?;
            anyhow::bail!("kubectl port-forward: {}", String::from_utf8_lossy(&output.stderr));
        };
        // Forwarding from 127.0.0.1:40001 -> 7000
        let port = first.split(['-', ':']).nth(1).and_then(|port| port.trim().parse().ok());
        Ok(Self { child, port: port.with_context(|| first.clone())?, _lines: lines })
    }

    async fn connect(&self) -> anyhow::Result<TcpStream> {
        Ok(TcpStream::connect(("127.0.0.1", self.port)).await?)
    }
}

/// Sends `MUCH` bytes, and reads all of them back, followed by the text of the server.
async fn converse(mut connection: TcpStream, number: u8) -> anyhow::Result<()> {
    let sent: Vec<u8> = (0..MUCH).map(|index| number.wrapping_add((index % 251).to_le_bytes()[0])).collect();
    let (mut reader, mut writer) = connection.split();
    let writing = async {
        writer.write_all(&sent).await?;
        // The other side learns that there is no more, and may still speak.
        writer.shutdown().await
    };
    let mut received = Vec::new();
    let (written, read) = timeout(LIMIT, async { tokio::join!(writing, reader.read_to_end(&mut received)) })
        .await
        .with_context(|| format!("connection {number} hangs"))?;
    written.with_context(|| format!("connection {number}"))?;
    read.with_context(|| format!("connection {number}"))?;
    let (echo, end) = received.split_at(received.len().min(MUCH));
    ensure!(echo == sent, "connection {number}: {} of {MUCH} bytes came back", echo.len());
    ensure!(end == b"the end", "connection {number}: {:?}", String::from_utf8_lossy(end));
    Ok(())
}

async fn ports_are_forwarded_in_both_directions_at_once() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    world.create(ECHO).await?;
    world.kubectl_output(&["wait", "--for=condition=Ready", "pod/echo", "--timeout=60s"]).await?;
    try_forwarding(Forwarding::older(&world, "pod/echo", 7000).await?).await.context("without a WebSocket")?;
    try_forwarding(Forwarding::start(&world, "pod/echo", 7000).await?).await
}

async fn try_forwarding(mut forwarding: Forwarding) -> anyhow::Result<()> {
    // One that is given up in the middle must not hold up the others.
    let mut given_up = forwarding.connect().await?;
    given_up.write_all(b"never mind").await?;
    drop(given_up);
    let connections = futures::future::try_join_all((0..3).map(|_| forwarding.connect())).await?;
    let all = connections.into_iter().zip(0..).map(|(connection, number)| converse(connection, number));
    futures::future::try_join_all(all).await?;
    // And one after the others, on the same tunnel.
    converse(forwarding.connect().await?, 9).await?;
    ensure!(forwarding.child.try_wait()?.is_none(), "kubectl gave up");
    forwarding.child.kill().await?;
    Ok(())
}

async fn a_closed_port_is_named() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    world.create(crate::terminal::POD).await?;
    world.kubectl_output(&["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"]).await?;
    let forwarding = Forwarding::start(&world, "p", 7).await?;
    let mut nothing = Vec::new();
    timeout(LIMIT, forwarding.connect().await?.read_to_end(&mut nothing)).await.context("it hangs")??;
    ensure!(nothing.is_empty());
    let output = timeout(LIMIT, forwarding.child.wait_with_output()).await.context("kubectl goes on")??;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(stderr.contains("error forwarding port 7 to pod p"), "{stderr}");
    ensure!(stderr.contains("refused"), "{stderr}");
    ensure!(stderr.trim_end().ends_with("error: lost connection to pod"), "{stderr}");
    Ok(())
}
