//! The whole platform is killed again and again, while its Tasks leave artefacts, outputs and logs.

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    env, fs,
    hash::{BuildHasher as _, Hasher as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use futures::TryStreamExt as _;
use serde_json::{Value, json};
use store::{Archive as _, Owner, Run, Store};

use crate::command::{LIMIT, Up, run};

/// Kills unless `KILLS` is set; there are two Tasks for a kill, and some.
const KILLS: usize = 3;
/// Time between two kills after the platform is ready, in milliseconds.
const CALM: u64 = 2000;

/// What a run says about itself in its log is what has to be kept of it.
const SCRIPT: &str = "mkdir -p dist/sub; head -c 300000 /dev/urandom > dist/sub/noise; sleep 0.3; \
    sha=$(sha256sum < dist/sub/noise | cut -d' ' -f1); for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done; \
    echo sha=$sha; echo sha=$sha >> $KUBEOPENCODE_OUTPUTS";

#[test]
fn what_runs_leave_outlives_a_platform_that_is_killed_again_and_again() {
    let kills = env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut up = start(&state);
    up.kubectl(&["apply", "-f", &objects(dir.path(), kills * 2 + 4)]);
    let mut before = BTreeMap::new();
    for _ in 0..kills {
        thread::sleep(Duration::from_millis(RandomState::new().build_hasher().finish() % CALM));
        for (name, status) in statuses(&up) {
            if is_over(&status) {
                before.insert(name, status);
            }
        }
        up.kill();
        up = start(&state);
    }
    let after = settled(&up);
    for (name, status) in &before {
        assert_eq!(status, &after[name], "the final status of {name} changed");
    }
    let (mut whole, mut uids) = (0, BTreeMap::new());
    for (name, status) in &after {
        let uid = up.kubectl(&["get", "task", name, "-o", "jsonpath={.metadata.uid}"]);
        uids.insert(name.clone(), uid);
        match status["reason"].as_str() {
            Some("Succeeded") => whole += 1,
            // Its processes ended with the platform, and it had no time to leave anything.
            Some("NodeLost" | "CollectFailed" | "PodLost") => {}
            _ => panic!("{name}: {status:#}"),
        }
    }
    assert!(whole > 0, "{after:#?}");
    stop(up, &state);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = state.join("store");
    runtime.block_on(async {
        let store = Store::directory(&place).unwrap();
        for (name, status) in &after {
            let run = Run { task: Owner::new("default", &uids[name]).unwrap(), epoch: 1 };
            if status["reason"] == "Succeeded" {
                is_kept(&store, &run, status).await;
            }
            let record = &store.records(&run.task).await.unwrap()[&1];
            let record: Value = serde_json::from_slice(record).unwrap();
            assert_eq!(record["reason"], status["reason"], "{name}");
        }
    });
    store(&place, &["check"]);
    store(&place, &["gc", "--grace", "1ms"]);
    assert_eq!(store(&place, &["gc", "--grace", "1ms"]), "nothing to remove\n");
    store(&place, &["check"]);

    // With the Tasks goes everything.
    let up = start(&state);
    up.kubectl(&["delete", "tasks", "--all", "--wait=true", "--timeout=60s"]);
    up.until(&["get", "pods,pvc", "-o", "name"], str::is_empty);
    runtime.block_on(async {
        let store = Store::directory(&place).unwrap();
        let started = Instant::now();
        while !store.owners().await.unwrap().is_empty() {
            assert!(started.elapsed() < LIMIT, "the store keeps what runs of deleted Tasks left");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    stop(up, &state);
    store(&place, &["gc", "--grace", "1ms"]);
    // The name of the store stays.
    assert_eq!(files(&place.join("blobs")), [place.join("blobs/store-id")]);
    println!("{kills} kills of the platform: {whole} of {} Tasks succeeded, the others were lost", after.len());
}

fn start(state: &Path) -> Up {
    Up::start(state, &["--port", "0", "--host-images"])
}

fn stop(up: Up, state: &Path) {
    run(&["down", "--state-dir", state.to_str().unwrap()]);
    assert_eq!(up.ended(), Some(0));
}

fn objects(dir: &Path, tasks: usize) -> String {
    let template = json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate", "metadata": { "name": "leaves" },
        "spec": { "command": ["sh", "-c", SCRIPT], "maxConcurrentTasks": 3, "workspace": { "accessMode": "ReadWriteOnce" } },
    });
    let task = |number| {
        json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": { "name": format!("t{number:03}") },
            "spec": {
                "description": "work", "templateRef": { "name": "leaves" }, "outputs": ["sha"],
                "artifacts": [{ "name": "dist", "paths": ["dist/**"] }],
            },
        })
    };
    let items: Vec<Value> = [template].into_iter().chain((0..tasks).map(task)).collect();
    let file = dir.join("objects.json");
    fs::write(&file, json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()).unwrap();
    file.display().to_string()
}

/// The status of each Task.
fn statuses(up: &Up) -> BTreeMap<String, Value> {
    let tasks: Value = serde_json::from_str(&up.kubectl(&["get", "tasks", "-o", "json"])).unwrap();
    let items = tasks["items"].as_array().unwrap().iter();
    items.map(|task| (task["metadata"]["name"].as_str().unwrap().to_owned(), task["status"].clone())).collect()
}

fn is_over(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("Completed" | "Failed"))
}

/// The status of each Task once all are over. Some of them run one after the other.
fn settled(up: &Up) -> BTreeMap<String, Value> {
    let (mut last, mut started) = (0, Instant::now());
    loop {
        let all = statuses(up);
        let over = all.values().filter(|status| is_over(status)).count();
        if over == all.len() {
            return all;
        }
        if over > last {
            (last, started) = (over, Instant::now());
        }
        assert!(started.elapsed() < LIMIT, "no Task ends any more: {all:#?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// What the status of a successful run promises is in the store.
async fn is_kept(store: &Store, run: &Run, status: &Value) {
    let artifact = store.artifact(run, "dist").await.unwrap().unwrap();
    assert_eq!(status["artifacts"][0]["name"], "dist", "{status:#}");
    let manifest = store.manifest(run, "dist").await.unwrap().unwrap();
    let manifest: fileset::Manifest = serde_json::from_slice(&manifest).unwrap();
    let chunks: Vec<_> = store.read_blob(&artifact.digest, 0..u64::MAX).await.unwrap().try_collect().await.unwrap();
    let target = tempfile::tempdir().unwrap();
    let limits = fileset::Limits { files: 10, bytes: 1 << 20 };
    fileset::unpack(&chunks.concat()[..], &manifest, target.path(), limits).unwrap();
    let noise = fs::read(target.path().join("dist/sub/noise")).unwrap();
    let sha = store::Digest::of(&noise).as_str().to_owned();
    assert_eq!(status["result"]["outputs"], json!({ "sha": sha }), "{status:#}");
    let outputs: Value = serde_json::from_slice(&store.outputs(run).await.unwrap().unwrap()).unwrap();
    assert_eq!(outputs, json!({ "sha": sha }));
    let log = store.find(&run.log()).await.unwrap().unwrap();
    assert!(log.is_whole(), "{log:?}");
    let text = store.read(&run.log(), 0, 1 << 20).await.unwrap().bytes;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("line 9") && text.contains(&format!("sha={sha}")), "{text}");
}

/// Runs `kubeopencode store`, which must succeed.
fn store(place: &Path, args: &[&str]) -> String {
    let output = run(&[&["store"], args, &["--store", place.to_str().unwrap()]].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "store {args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

fn files(base: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![base.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files
}
