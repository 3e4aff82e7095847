//! Commands in containers, and connections to them.

use anyhow::Context as _;
use kubeopencode_node::Exec;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testenv::{cases, runner::Case};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::world::{IMAGE, LIMIT, World, once, process, runs, soon};

pub const CASES: &[Case] = cases![
    a_command_runs_beside_the_container,
    a_terminal_is_a_terminal,
    a_terminal_that_cannot_be_had_says_why_and_ends,
    a_command_ends_when_nobody_waits_for_it,
    a_port_can_be_reached,
];

async fn started(world: &World, args: &[&str], tty: bool, stdin: bool) -> anyhow::Result<Exec> {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    Ok(world.node.exec(&world.namespace, "host", "main", args, tty, stdin).await?)
}

async fn a_command_runs_beside_the_container() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut spec = once("echo marked > /tmp/mark; exec sleep 600");
    spec["containers"][0]["env"] = json!([{"name": "COLOR", "value": "blue"}]);
    spec["containers"][0]["workingDir"] = json!("/usr");
    world.create("host", spec).await?;
    world.ready("host").await?;
    let run = async |args: &[&str], input: Option<&str>| {
        let mut exec = started(&world, args, false, input.is_some()).await?;
        if let Some(input) = input {
            let mut stdin = exec.stdin.take().context("no standard input")?;
            stdin.write_all(input.as_bytes()).await?;
            stdin.shutdown().await?;
        }
        let (mut out, mut err) = (String::new(), String::new());
        let mut stderr = exec.stderr.take().context("no standard error")?;
        let (read, also) = tokio::join!(exec.stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
        read?;
        also?;
        anyhow::Ok((out, err, exec.status.await?))
    };
    let script = "cat /tmp/mark; echo $COLOR; pwd; id -u; cat /proc/1/comm; echo problem >&2; exit 3";
    let expected = ("marked\nblue\n/usr\n1000\nsleep\n".to_owned(), "problem\n".to_owned(), 3);
    assert_eq!(run(&["sh", "-c", script], None).await?, expected);
    let big = "0123456789".repeat(200_000);
    let (out, _, code) = run(&["wc", "-c"], Some(&big)).await?;
    assert_eq!((out.trim(), code), ("2000000", 0));
    assert_eq!(run(&["cat"], None).await?.0, "", "without input there is nothing to read");
    let (_, err, code) = run(&["no-such-command"], None).await?;
    assert_eq!(code, 127);
    assert!(err.contains("\"no-such-command\": not found"), "{err}");
    let refused = world.node.exec(&world.namespace, "host", "other", vec!["true".into()], false, false).await;
    assert_eq!(
        refused.err().map(|error| error.to_string()).as_deref(),
        Some("container other is not valid for pod host")
    );
    world.end().await
}

async fn a_terminal_is_a_terminal() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("host", once("exec sleep 600")).await?;
    world.ready("host").await?;
    let mut exec = started(
        &world,
        &["sh", "-c", "test -t 0 && test -t 1 && echo yes; read word; stty size; echo got $word; exit 4"],
        true,
        true,
    )
    .await?;
    exec.resize.as_ref().context("no terminal")?.to(132, 43)?;
    exec.stdin.as_mut().context("no standard input")?.write_all(b"hello\n").await?;
    let mut all = String::new();
    tokio::time::timeout(LIMIT, exec.stdout.read_to_string(&mut all)).await??;
    assert!(all.contains("yes") && all.contains("43 132") && all.contains("got hello"), "{all:?}");
    assert_eq!(exec.status.await?, 4);
    // Ctrl-C reaches the command.
    let mut exec = started(
        &world,
        &["sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"],
        true,
        true,
    )
    .await?;
    let mut output = Vec::new();
    while !String::from_utf8_lossy(&output).contains("ready") {
        tokio::time::timeout(LIMIT, exec.stdout.read_buf(&mut output)).await??;
    }
    exec.stdin.as_mut().context("no standard input")?.write_all(&[3]).await?;
    tokio::time::timeout(LIMIT, exec.stdout.read_to_end(&mut output)).await??;
    assert!(String::from_utf8_lossy(&output).contains("caught"));
    assert_eq!(exec.status.await?, 5);
    world.end().await
}

/// A container may die while a command is started in it.
async fn a_terminal_that_cannot_be_had_says_why_and_ends() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mark = format!("77{}", std::process::id());
    world.create("host", once(&format!("exec sleep {mark}"))).await?;
    world.ready("host").await?;
    let number = |text: &str| text.parse().ok().and_then(Pid::from_raw).context("no number of a process");
    let container = process(&mark).context("no container")?;
    let stat = container.join("stat");
    let parents = std::fs::read_to_string(&stat)?;
    let supervisor = number(parents.rsplit(") ").next().unwrap_or_default().split(' ').nth(1).unwrap_or_default())?;
    let container = number(&container.file_name().unwrap_or_default().to_string_lossy())?;
    // While the supervisor is stopped, the node does not notice the end of the container.
    kill_process(supervisor, Signal::STOP)?;
    kill_process(container, Signal::KILL)?;
    // A signal takes time on a busy machine; until then, the command could still enter.
    let dead = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "));
    soon("the container is dead", dead).await?;
    let mut exec = started(&world, &["true"], true, true).await?;
    let mut stdout = String::new();
    let read = tokio::time::timeout(LIMIT, exec.stdout.read_to_string(&mut stdout)).await;
    kill_process(supervisor, Signal::CONT)?;
    read.context("it does not end")??;
    assert!(stdout.contains("cannot enter the container"), "{stdout:?}");
    assert_eq!(exec.status.await?, 126);
    world.end().await
}

async fn a_command_ends_when_nobody_waits_for_it() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("host", once("exec sleep 600")).await?;
    world.ready("host").await?;
    let mark = format!("88{}", std::process::id());
    let exec = started(&world, &["sleep", &mark], false, false).await?;
    soon("it runs", || runs(&mark)).await?;
    drop(exec);
    soon("it ends", || !runs(&mark)).await?;
    world.end().await
}

async fn a_port_can_be_reached() -> anyhow::Result<()> {
    let world = World::new().await?;
    let main = json!({
        "name": "main", "image": IMAGE, "command": ["/server", "serve", "$(IP):8080", "hello from the pod"],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    });
    world.create("server", json!({"containers": [main]})).await?;
    world.ready("server").await?;
    let mut stream = world.node.port_forward(&world.namespace, "server", 8080).await?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    tokio::time::timeout(LIMIT, stream.read_to_string(&mut answer)).await??;
    assert!(answer.ends_with("hello from the pod"), "{answer}");
    let refused = world.node.port_forward(&world.namespace, "server", 9).await.unwrap_err().to_string();
    assert!(refused.starts_with("cannot connect to port 9 of pod \"server\""), "{refused}");
    world.end().await
}
