//! kube-rs: the scenarios of its own tests.

use std::{pin::pin, time::Duration};

use anyhow::{Context as _, bail, ensure};
use blackbox::{cases, runner::Case};
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{
        AttachParams, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams, TerminalSize, WatchEvent,
        WatchParams,
    },
    runtime::{WatchStreamExt as _, wait, watcher},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use crate::{forward::ECHO, terminal::POD, world::World};

pub const CASES: &[Case] = cases![
    a_watch_sees_every_change_and_goes_on_where_another_ended,
    commands_run_with_input_and_with_a_terminal,
    a_log_is_followed_to_its_end,
    an_attached_client_hears_what_is_printed,
    a_port_carries_data_both_ways_at_once,
];

/// Everything happens at once; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);

/// Fails if an operation takes too long.
async fn soon<T>(what: &str, doing: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    timeout(LIMIT, doing).await.with_context(|| format!("{what}: it takes too long"))?.context(what.to_owned())
}

/// The Pods of a world, one of which is started and ready.
async fn running(world: &World, manifest: &str, name: &str) -> anyhow::Result<Api<Pod>> {
    world.create(manifest).await?;
    let pods: Api<Pod> = Api::namespaced(world.client().await?, &world.namespace);
    let ready = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
    };
    let becomes_ready = Box::pin(wait::await_condition(pods.clone(), name, ready));
    soon("the Pod is ready", async { Ok(becomes_ready.await?) }).await?;
    Ok(pods)
}

async fn a_watch_sees_every_change_and_goes_on_where_another_ended() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    let maps: Api<ConfigMap> = Api::namespaced(world.client().await?, &world.namespace);
    let mine = "metadata.name=colours";
    let before = maps.list(&ListParams::default()).await?.metadata.resource_version.context("no version")?;
    let mut events = pin!(watcher(maps.clone(), watcher::Config::default().fields(mine)).default_backoff());
    let mut next = async || -> anyhow::Result<String> {
        loop {
            let event = events.try_next().await?.context("the watch ended")?;
            return Ok(match event {
                watcher::Event::Apply(map) => format!("applied {}", map.data.unwrap_or_default()["sky"]),
                watcher::Event::InitApply(map) => format!("there {}", map.name_any()),
                watcher::Event::Delete(map) => format!("deleted {}", map.name_any()),
                watcher::Event::InitDone => "ready".to_owned(),
                watcher::Event::Init => continue,
            });
        }
    };
    ensure!(soon("an empty start", next()).await? == "ready");
    let map = serde_json::from_value(json!({"metadata": {"name": "colours"}, "data": {"sky": "blue"}}))?;
    maps.create(&PostParams::default(), &map).await?;
    ensure!(soon("the creation", next()).await? == "applied blue");
    let grey = Patch::Merge(json!({"data": {"sky": "grey"}}));
    let changed = maps.patch("colours", &PatchParams::default(), &grey).await?;
    ensure!(soon("the change", next()).await? == "applied grey");
    maps.delete("colours", &DeleteParams::default()).await?;
    ensure!(soon("the deletion", next()).await? == "deleted colours");

    // Another client begins where it once was, and misses nothing.
    for (version, expected) in [(before, 3), (changed.resource_version().context("no version")?, 1)] {
        let events = maps.watch(&WatchParams::default().fields(mine), &version).await?;
        let types = events.try_filter_map(|event| {
            futures::future::ready(Ok(match event {
                WatchEvent::Added(_) => Some("added"),
                WatchEvent::Modified(_) => Some("modified"),
                WatchEvent::Deleted(_) => Some("deleted"),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => None,
            }))
        });
        let types: Vec<&str> = soon("the replay", async { Ok(types.take(expected).try_collect().await?) }).await?;
        ensure!(types == ["added", "modified", "deleted"][3 - expected..], "{types:?}");
    }
    Ok(())
}

async fn commands_run_with_input_and_with_a_terminal() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    let pods = running(&world, POD, "p").await?;
    let params = AttachParams::default().stdin(true);
    let mut process = pods.exec("p", ["sh", "-c", "cat; echo complaint >&2; exit 3"], &params).await?;
    let mut stdin = process.stdin().context("no input")?;
    stdin.write_all(b"hello").await?;
    stdin.shutdown().await?;
    drop(stdin);
    let (mut stdout, mut stderr) = (process.stdout().context("no output")?, process.stderr().context("no errors")?);
    let (mut printed, mut complained) = (String::new(), String::new());
    soon("the output", async { Ok(stdout.read_to_string(&mut printed).await?) }).await?;
    soon("the errors", async { Ok(stderr.read_to_string(&mut complained).await?) }).await?;
    ensure!((&*printed, &*complained) == ("hello", "complaint\n"), "{printed:?} {complained:?}");
    let status = process.take_status().context("no status")?.await.context("no status")?;
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    ensure!(status.reason.as_deref() == Some("NonZeroExitCode"), "{:?}", status.reason);
    ensure!(causes.iter().any(|cause| cause.message.as_deref() == Some("3")), "{causes:?}");

    let params = AttachParams::interactive_tty();
    let wait_for_size = "until [ \"$(stty size)\" = '12 34' ]; do sleep 0.1; done; echo right size";
    let mut process = pods.exec("p", ["sh", "-c", wait_for_size], &params).await?;
    let mut sizes = process.terminal_size().context("no sizes")?;
    futures::SinkExt::send(&mut sizes, TerminalSize { width: 34, height: 12 }).await?;
    let mut stdout = process.stdout().context("no output")?;
    let mut printed = String::new();
    soon("the size", async { Ok(stdout.read_to_string(&mut printed).await?) }).await?;
    ensure!(printed == "right size\r\n", "{printed:?}");
    Ok(())
}

async fn a_log_is_followed_to_its_end() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    let pods = running(&world, SPEAKER, "speaker").await?;
    let params = LogParams { follow: true, ..LogParams::default() };
    let lines = pods.log_stream("speaker", &params).await?.lines();
    let lines: Vec<String> = soon("the log", async { Ok(lines.try_collect().await?) }).await?;
    ensure!(lines == ["1", "2", "3", "4"], "{lines:?}");
    Ok(())
}

async fn an_attached_client_hears_what_is_printed() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    let pods = running(&world, SPEAKER, "speaker").await?;
    let mut process = pods.attach("speaker", &AttachParams::default().stderr(false)).await?;
    let mut output = String::new();
    let mut stdout = process.stdout().context("no output")?;
    soon("the output", async { Ok(stdout.read_to_string(&mut output).await?) }).await?;
    ensure!(output.ends_with("4\n"), "{output:?}");
    Ok(())
}

/// Speaks for two seconds, then ends.
const SPEAKER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: speaker}
spec:
  restartPolicy: Never
  containers: [{name: main, image: busybox, command: [sh, -c, 'for i in 1 2 3 4; do echo $i; sleep 0.5; done']}]
";

async fn a_port_carries_data_both_ways_at_once() -> anyhow::Result<()> {
    let world = World::on_a_platform().await?;
    let pods = running(&world, ECHO, "echo").await?;
    let mut forwarder = pods.portforward("echo", &[7000]).await?;
    let (mut reader, mut writer) = tokio::io::split(forwarder.take_stream(7000).context("no stream")?);
    let sent: Vec<u8> = (0..4 << 20).map(|index: u32| index.to_le_bytes()[1]).collect();
    let mut received = vec![0; sent.len()];
    soon("the echo", async {
        let (written, read) = tokio::join!(writer.write_all(&sent), reader.read_exact(&mut received));
        written?;
        read?;
        Ok(())
    })
    .await?;
    ensure!(received == sent, "the echo is another");

    let mut forwarder = pods.portforward("echo", &[7]).await?;
    let problem = forwarder.take_error(7).context("no errors")?;
    match timeout(LIMIT, problem).await? {
        Some(text) if text.contains("refused") => Ok(()),
        other => bail!("a closed port: {other:?}"),
    }
}
