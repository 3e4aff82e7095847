//! Runs that leave something, and who kills what.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, ensure};
use domain::contract::{reason::Reason, report::RunReport};
use futures::future::try_join_all;
use serde_json::{Value, json};
use store::Run;
use tokio::task::JoinSet;

use crate::{
    audit,
    controller::{LINES, OVER, RECORDED, UID},
    dice::Dice,
    process::Once,
    world::{BackEnds, Shared, World, until},
};

/// Runs at once, at least and at most: more than follow from the kills so far, so that there is always one to hit.
const LEAD: (usize, usize) = (1, 6);
/// Time between two kills, in milliseconds.
const CALM: u64 = 250;
/// One of so many runs leaves a file of several parts.
const LARGE: usize = 6;
const LARGE_BYTES: usize = (20 << 20) + 3;
/// One of so many runs has two housekeepers at once.
const TWICE: usize = 5;
/// One of so many Pods whose housekeeper is killed is gone for good.
const GONE: u64 = 4;
/// One of so many kills of the depot hits it while it starts.
const EARLY: u64 = 4;
/// Runs share the entries of so many keys of a cache.
const KEYS: usize = 7;

/// A run, and what is known about its end.
pub struct Left {
    pub name: String,
    pub dir: PathBuf,
    pub run: Run,
    /// Whether a housekeeper reported that everything is kept.
    pub whole: bool,
    pub cache_key: String,
}

/// Housekeepers at work, by the number of their run and their own.
#[derive(Default)]
struct Pods(Mutex<BTreeMap<(usize, usize), Arc<Pod>>>);

struct Pod {
    process: Once,
    /// Set by who kills it, if it is not to be started again.
    gone: AtomicBool,
}

/// What was killed.
#[derive(Debug, Default)]
pub struct Killed {
    pub housekeepers: usize,
    pub depot: usize,
    pub controller: usize,
    pub postgres: usize,
    pub bucket: usize,
}

/// What a run declares.
pub fn keep() -> Value {
    json!({
        "artifacts": [{"name": "dist", "paths": ["dist/**"]}, {"name": "logs", "paths": ["*.log"], "when": "Always"}],
        "outputs": ["verdict"],
        "caches": [{"name": "deps", "key": "unused", "paths": ["deps"]}],
        "changes": true,
    })
}

pub async fn amid_kills(back_ends: BackEnds, kills: usize, seed: u64) -> anyhow::Result<()> {
    let dice = Dice::new(seed);
    let world = Arc::new(World::start(back_ends).await?);
    let lived = async {
        world.served().await?;
        live_amid_kills(&world, &dice, kills).await
    };
    let lived = lived.await;
    let (left, killed) =
        lived.with_context(|| ["server.log", "controller.log"].map(|log| world.end_of(log)).concat())?;
    let number = number_of_runs(kills);
    let world = Arc::into_inner(world).context("the world is in use")?;
    let audited = audit::all(world, &left).await?;
    let name = back_ends.name();
    eprintln!("{name}: {kills} kills beside {number} runs, {killed:?}: {audited}");
    Ok(())
}

fn number_of_runs(kills: usize) -> usize {
    (kills * 2 / 5).max(1)
}

async fn live_amid_kills(world: &Shared, dice: &Dice, kills: usize) -> anyhow::Result<(Vec<Left>, Killed)> {
    let number = number_of_runs(kills);
    let lead = (number / 30).clamp(LEAD.0, LEAD.1);
    let (pods, finished, done) = (Arc::<Pods>::default(), AtomicUsize::new(0), Arc::<AtomicUsize>::default());
    // The runs that are left end with this set.
    let mut runs = JoinSet::new();
    for index in 0..number {
        let (world, dice, pods, done) = (Arc::clone(world), dice.clone(), Arc::clone(&pods), Arc::clone(&done));
        runs.spawn(async move {
            until_soon(|| index * kills < done.load(Ordering::SeqCst) * number + lead * kills).await;
            live(&world, &dice, &pods, index).await.with_context(|| format!("run {index}"))
        });
    }
    let killing = async {
        let mut killed = Killed::default();
        for kill in 0..kills {
            until_soon(|| kill * number < (finished.load(Ordering::SeqCst) + lead) * kills).await;
            tokio::time::sleep(Duration::from_millis(dice.within(5..CALM))).await;
            strike(world, dice, &pods, &mut killed).await?;
            done.fetch_add(1, Ordering::SeqCst);
        }
        anyhow::Ok(killed)
    };
    let living = async {
        let mut left = Vec::with_capacity(number);
        while let Some(run) = runs.join_next().await {
            left.push(run??);
            finished.fetch_add(1, Ordering::SeqCst);
        }
        anyhow::Ok(left)
    };
    tokio::try_join!(living, killing)
}

/// Waits for something that the limit of the case ends.
async fn until_soon(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Kills something, whatever it is doing.
async fn strike(world: &World, dice: &Dice, pods: &Pods, killed: &mut Killed) -> anyhow::Result<()> {
    match dice.within(0..10) {
        8 if world.bucket.is_some() => {
            killed.bucket += 1;
            world.lose_bucket(dice).await?;
        }
        7 | 8 if world.postgres.is_some() => {
            killed.postgres += 1;
            world.lose_postgres(dice).await?;
        }
        6 => {
            killed.controller += 1;
            world.controller.kill().await;
        }
        4 | 5 | 7 | 8 => {
            if dice.within(0..EARLY) > 0 {
                world.served().await?;
            }
            killed.depot += 1;
            world.server.kill().await;
        }
        _ => {
            let gone = dice.within(0..GONE) == 0;
            let Some(pod) = pods.any(dice) else {
                killed.depot += 1;
                world.server.kill().await;
                return Ok(());
            };
            pod.gone.fetch_or(gone, Ordering::SeqCst);
            killed.housekeepers += 1;
            pod.process.kill();
        }
    }
    Ok(())
}

impl Pods {
    fn any(&self, dice: &Dice) -> Option<Arc<Pod>> {
        let pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = dice.within(0..pods.len().max(1) as u64);
        pods.values().nth(usize::try_from(one).unwrap()).cloned()
    }

    fn add(&self, key: (usize, usize)) -> Arc<Pod> {
        let pod = Arc::new(Pod { process: Once::new(), gone: AtomicBool::new(false) });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&pod));
        pod
    }

    fn remove(&self, key: (usize, usize)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

/// A run from the end of its agent to its record.
async fn live(world: &Shared, dice: &Dice, pods: &Pods, index: usize) -> anyhow::Result<Left> {
    let (name, keep) = (format!("run-{index:04}"), keep());
    let (run, token) = world.run(&name, &keep).await?;
    let dir = world.path("runs").join(&name);
    let cache_key = format!("deps-{}", index % KEYS);
    let large = index % LARGE == 1;
    write(&dir, dice, index, &token, &cache_key, large)?;
    // The controller follows the log from now on.
    fs::write(dir.join("uid.draft"), run.task.uid())?;
    fs::rename(dir.join("uid.draft"), dir.join(UID))?;

    let housekeepers = if index % TWICE == 2 { 2 } else { 1 };
    let kept = (0..housekeepers).map(|number| collect(world, pods, (index, number), &dir, &keep));
    let whole = try_join_all(kept).await?.into_iter().any(|whole| whole);
    fs::write(dir.join("over.draft"), if whole { "Completed" } else { "Failed" })?;
    fs::rename(dir.join("over.draft"), dir.join(OVER))?;
    until("the record", || dir.join(RECORDED).exists()).await?;
    world.status(&name, json!({"phase": if whole { "Completed" } else { "Failed" }})).await?;
    Ok(Left { name, dir, run, whole, cache_key })
}

/// Runs a housekeeper until it is done, or gone with its Pod. Returns whether it kept everything.
async fn collect(world: &World, pods: &Pods, key: (usize, usize), dir: &Path, keep: &Value) -> anyhow::Result<bool> {
    let pod = pods.add(key);
    let log = dir.join(format!("housekeeper-{}.log", key.1));
    let whole = loop {
        let status = pod.process.run(world.housekeeper(dir, keep, key.1), &log).await;
        match status.signal() {
            Some(_) if pod.gone.load(Ordering::SeqCst) => break false,
            Some(_) => {}
            None => {
                ensure!(status.success(), "{status}: {}", fs::read_to_string(&log).unwrap_or_default());
                break true;
            }
        }
    };
    pods.remove(key);
    Ok(whole)
}

/// What the agent left, and what its Pod has.
fn write(dir: &Path, dice: &Dice, index: usize, token: &str, key: &str, large: bool) -> anyhow::Result<()> {
    for name in ["results", "collect", "workspace/dist/sub", "workspace/deps"] {
        fs::create_dir_all(dir.join(name))?;
    }
    let file = |name: &str, bytes: &[u8]| fs::write(dir.join(name), bytes);
    file("token", token.as_bytes())?;
    file("results/lock", b"")?;
    file("results/report.json", RunReport::new(Reason::Succeeded, "").into_termination_message(4096).as_bytes())?;
    file("results/outputs", format!("verdict=good-{index}\n").as_bytes())?;
    file("results/changes.patch", format!("diff --git a b {index}\n").as_bytes())?;
    file("collect/caches.json", json!([{"name": "deps", "key": key, "exact": false}]).to_string().as_bytes())?;
    for number in 0..dice.within(1..20) {
        let length = usize::try_from(dice.within(0..20_000))?;
        file(&format!("workspace/dist/sub/{number}"), &dice.bytes(length))?;
    }
    if large {
        file("workspace/dist/large", &dice.bytes(LARGE_BYTES))?;
    }
    file("workspace/run.log", format!("log of {index}").repeat(50).as_bytes())?;
    // The same for all runs of a key: what a key stands for.
    file("workspace/deps/module", key.repeat(1000).as_bytes())?;
    file(LINES, dice.within(50..2_000).to_string().as_bytes())?;
    Ok(())
}
