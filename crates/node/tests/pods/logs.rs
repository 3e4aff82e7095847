//! Logs of containers.

use kubeopencode_node::LogOptions;
use serde_json::json;
use testenv::{cases, runner::Case};

use crate::world::{World, once, sh};

pub const CASES: &[Case] = cases![
    a_log_can_be_read_in_every_way,
    a_log_can_be_followed_to_its_end,
    a_log_does_not_grow_for_ever,
    what_has_no_log_says_so,
];

async fn a_log_can_be_read_in_every_way() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("speaker", once("echo one; sleep 0.2; echo two >&2; sleep 0.2; printf three")).await?;
    world.phase("speaker", "Succeeded").await?;
    let read = async |options| world.log_with("speaker", "main", options).await;
    assert_eq!(read(LogOptions::default()).await?, "one\ntwo\nthree\n");
    assert_eq!(read(LogOptions { tail: Some(1), ..LogOptions::default() }).await?, "three\n");
    assert_eq!(read(LogOptions { limit_bytes: Some(5), ..LogOptions::default() }).await?, "one\nt");
    let with_times = read(LogOptions { timestamps: true, ..LogOptions::default() }).await?;
    let times: Vec<&str> = with_times.lines().filter_map(|line| line.split(' ').next()).collect();
    let last: jiff::Timestamp = times[2].parse()?;
    assert_eq!(read(LogOptions { since: Some(last), ..LogOptions::default() }).await?, "three\n");
    world.end().await
}

async fn a_log_can_be_followed_to_its_end() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("counter", once("for n in 1 2 3 4 5; do echo $n; sleep 0.1; done")).await?;
    world.phase("counter", "Running").await?;
    let follow = LogOptions { follow: true, ..LogOptions::default() };
    assert_eq!(world.log_with("counter", "main", follow).await?, "1\n2\n3\n4\n5\n");
    world.end().await
}

async fn a_log_does_not_grow_for_ever() -> anyhow::Result<()> {
    let world = World::new().await?;
    // 700,000 lines of 80 bytes with their prefixes: more than five parts of 10 MiB.
    let line = "x".repeat(75);
    world.create("flood", once(&format!("yes {line} | head -n 700000; echo the end"))).await?;
    world.phase("flood", "Succeeded").await?;
    let uid = world.pods().get("flood").await?.metadata.uid.unwrap_or_default();
    let dir = world.root.join("pods").join(uid).join("logs/main");
    let files: Vec<u64> =
        std::fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).collect::<std::io::Result<_>>()?;
    assert_eq!(files.len(), 5, "{files:?}");
    assert!(files.iter().all(|size| *size <= 10 << 20), "{files:?}");
    let tail = world.log_with("flood", "main", LogOptions { tail: Some(2), ..LogOptions::default() }).await?;
    assert_eq!(tail, format!("{line}\nthe end\n"));
    let all = world.log("flood", "main").await?;
    assert!(all.len() > 20 << 20 && all.lines().all(|one| one == line || one == "the end"), "{}", all.len());
    world.end().await
}

async fn what_has_no_log_says_so() -> anyhow::Result<()> {
    let world = World::new().await?;
    let spec = json!({"initContainers": [sh("first", "sleep 600")], "containers": [sh("main", "true")]});
    world.create("waiting", spec).await?;
    world
        .until("waiting", "preparing", |pod| {
            let statuses = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
            statuses.into_iter().any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
        })
        .await?;
    let check = async |pod: &str, container: &str, previous: bool, expected: &str| {
        let options = LogOptions { previous, ..LogOptions::default() };
        let error = world.log_with(pod, container, options).await.unwrap_err().to_string();
        assert_eq!(error, expected);
    };
    check("waiting", "main", false, "container \"main\" in pod \"waiting\" is waiting to start: ContainerCreating")
        .await;
    check("waiting", "first", true, "previous terminated container \"first\" in pod \"waiting\" not found").await;
    check("waiting", "other", false, "container other is not valid for pod waiting").await;
    check("absent", "main", false, "pods \"absent\" not found").await;
    world.end().await
}
