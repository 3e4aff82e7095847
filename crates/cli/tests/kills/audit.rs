//! What is there at the end, against what was acknowledged.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};
use fileset::{Limits, Manifest};
use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use store::{Archive as _, CacheScope, Digest, Run, Store};

use crate::{
    controller::{self, LINES, LOST, RECORDED},
    runs::Left,
    world::{NAMESPACE, PROGRAM, World},
};

const LIMITS: Limits = Limits { files: 1000, bytes: 1 << 30 };
const SCOPE: &str = "template/t";

/// Checks everything. Returns what was found, for people.
pub async fn all(world: World, left: &[Left]) -> anyhow::Result<String> {
    let World { dir, records, blobs, server, controller, postgres, bucket, .. } = world;
    drop((server, controller));
    let store = Store::open(&records, &blobs).await?;
    let mut whole = 0;
    for left in left {
        kept(&store, left).await.with_context(|| left.name.clone())?;
        whole += usize::from(left.whole);
    }
    published_once(&dir.path().join("server.log"))?;

    let program = |args: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("store").args(args).args(["--records", &records, "--blobs", &blobs]);
        let output = command.output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        ensure!(output.status.success(), "store {args:?}: {text}");
        anyhow::Ok(text)
    };
    program(&["check"])?;
    // Everything is at rest: what no record names is left over.
    let removed = program(&["gc", "--grace", "1ms"])?;
    ensure!(program(&["gc", "--grace", "1ms"])? == "nothing to remove\n", "a second collection finds more");
    program(&["check"])?;
    for left in left {
        kept(&store, left).await.with_context(|| format!("{} after the collection", left.name))?;
    }
    let base = match &bucket {
        Some(bucket) => bucket.lock().await.directory().join("kills"),
        None => PathBuf::from(&blobs),
    };
    let objects = files(&base).len();

    // Without its users, no blob stays.
    for left in left {
        store.remove(&left.run.task).await?;
    }
    let none = store::Limits { age: Some(SignedDuration::ZERO), ..store::Limits::default() };
    store.evict_caches(NAMESPACE, none, Timestamp::now() + SignedDuration::from_secs(1)).await?;
    program(&["gc", "--grace", "1ms"])?;
    let mut stay = files(&base);
    // The name of the store.
    stay.retain(|file| !file.ends_with("store-id"));
    ensure!(stay.is_empty(), "nothing uses {stay:#?}");
    drop((postgres, bucket));
    Ok(format!("{whole} whole, {} lost with their Pod, {objects} objects; {}", left.len() - whole, removed.trim()))
}

/// What was acknowledged about a run is there, as it was written.
async fn kept(store: &Store, left: &Left) -> anyhow::Result<()> {
    let Left { dir, run, whole, cache_key, .. } = left;
    if let Ok(lost) = fs::read_to_string(dir.join(LOST)) {
        bail!("the store lost {lost}");
    }
    let lines = fs::read_to_string(dir.join(LINES))?.parse()?;
    let log = read_log(store, run).await?;
    ensure!(log == controller::lines(0..lines), "{} bytes of {lines} lines are kept", log.len());
    let end = store.find(&run.log()).await?.context("no log")?;
    ensure!(end.is_whole(), "{end:?}");
    let recorded = fs::read(dir.join(RECORDED))?;
    ensure!(store.records(&run.task).await?.get(&1) == Some(&recorded), "another record");

    let told = told(dir)?;
    let said = |what: &str| *whole || told.contains(what);
    for (name, files) in [("dist", "dist"), ("logs", "run.log")] {
        let found = store.artifact(run, name).await?;
        ensure!(found.is_some() || !said(&format!("artifact \"{name}\"")), "artifact {name} is missing");
        let Some(found) = found else { continue };
        let manifest = store.manifest(run, name).await?.context("no manifest")?;
        let manifest: Manifest = serde_json::from_slice(&manifest)?;
        let target = tempfile::tempdir()?;
        let bytes = whole_blob(store, &found.digest).await?;
        fileset::unpack(&bytes[..], &manifest, target.path(), LIMITS)?;
        let wanted = contents(&dir.join("workspace"), files)?;
        ensure!(contents(target.path(), files)? == wanted, "artifact {name} has other files");
    }
    let outputs = store.outputs(run).await?;
    ensure!(outputs.is_some() || !said("outputs"), "the outputs are missing");
    if let Some(outputs) = outputs {
        let written = fs::read_to_string(dir.join("results/outputs"))?;
        let outputs: Value = serde_json::from_slice(&outputs)?;
        ensure!(Some(written.trim()) == outputs["verdict"].as_str().map(|value| format!("verdict={value}")).as_deref());
    }
    let patch = store.patch(run).await?;
    ensure!(patch.is_some() || !said("the changes"), "the patch is missing");
    if let Some(patch) = patch {
        let written = fs::read(dir.join("results/changes.patch"))?;
        ensure!(whole_blob(store, &patch.digest).await? == written, "another patch");
    }
    let scope = CacheScope { namespace: NAMESPACE.to_owned(), scope: SCOPE.to_owned() };
    let hit = store.find_cache(&scope, "deps", cache_key, &[]).await?;
    ensure!(hit.is_some() || !said("cache \"deps\""), "the cache is missing");
    Ok(())
}

/// What the housekeepers of a run said to be stored.
fn told(dir: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut told = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        for line in fs::read_to_string(path)?.lines() {
            let Some((_, what)) = line.split_once("stored ").or_else(|| line.split_once("saved ")) else { continue };
            let what = what.split(&[':', ','][..]).next().unwrap_or_default();
            let what = what.split(" as ").next().unwrap_or_default();
            told.insert(if what.ends_with("outputs") { "outputs".to_owned() } else { what.to_owned() });
        }
    }
    Ok(told)
}

/// Each artefact was new once.
fn published_once(log: &Path) -> anyhow::Result<()> {
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    for line in fs::read_to_string(log)?.lines() {
        // A kill may cut a line.
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let fields = &line["fields"];
        if fields["message"] == "artifact stored" {
            let key = (fields["run"].to_string(), fields["name"].to_string());
            *times.entry(key).or_default() += 1;
        }
    }
    ensure!(!times.is_empty(), "the log does not say what is stored");
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    ensure!(twice.is_empty(), "published again: {twice:?}");
    Ok(())
}

async fn read_log(store: &Store, run: &Run) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let chunk = store.read(&run.log(), all.len() as u64, 1 << 20).await?.bytes;
        if chunk.is_empty() {
            return Ok(all);
        }
        all.extend(chunk);
    }
}

async fn whole_blob(store: &Store, digest: &Digest) -> anyhow::Result<Vec<u8>> {
    let chunks: Vec<_> = store.read_blob(digest, 0..u64::MAX).await?.try_collect().await?;
    let bytes = chunks.concat();
    ensure!(Digest::of(&bytes) == *digest, "blob {digest} has other bytes");
    Ok(bytes)
}

/// The files at or below a path, by their path from `root`.
fn contents(root: &Path, below: &str) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let start = root.join(below);
    let all = if start.is_dir() { files(&start) } else { vec![start] };
    all.into_iter().map(|path| Ok((path.strip_prefix(root)?.to_owned(), fs::read(&path)?))).collect()
}

fn files(base: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![base.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files
}
