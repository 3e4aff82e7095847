//! What is left after the process ends, one way or another.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kubeopencode_apiserver::{ApiServer, Options, Storage};
use serde_json::json;

/// Names the directory for the process that is going to be killed.
const DIRECTORY: &str = "KUBEOPENCODE_TEST_STATE_DIRECTORY";

async fn open(directory: &Path) -> ApiServer {
    for _ in 0..500 {
        let options = Options { storage: Storage::Directory(directory.to_owned()), ..Options::default() };
        match ApiServer::open(options).await {
            Ok(server) => return server,
            // A server that was just dropped lets go of its directory a moment later.
            Err(error) if error.to_string().contains("in use") => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the directory is still in use");
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"n": "0"}})).unwrap()
}

#[tokio::test]
async fn objects_versions_and_keys_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path()).await;
    let authority = server.authority().to_owned();
    let first = maps(server.client());
    let created = first.create(&PostParams::default(), &map("a")).await.unwrap();
    first.create(&PostParams::default(), &map("b")).await.unwrap();
    first.delete("b", &DeleteParams::default()).await.unwrap();
    let version = first.list(&ListParams::default()).await.unwrap().metadata.resource_version;
    let options = Options { storage: Storage::Directory(directory.path().to_owned()), ..Options::default() };
    let locked = ApiServer::open(options).await.err().unwrap().to_string();
    assert!(locked.contains("is in use by another process"), "{locked}");
    drop((server, first));

    let server = open(directory.path()).await;
    assert_eq!(server.authority(), authority);
    let second = maps(server.client());
    let list = second.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.metadata.resource_version, version);
    assert_eq!(list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["a"]);
    assert_eq!(list.items[0].resource_version(), created.resource_version());
}

// On several threads: this one waits for lines while the server of the round before lets go of its directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_being_killed_under_load() {
    let directory = tempfile::tempdir().unwrap();
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "durability::a_process_that_writes_until_it_is_killed", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut count = 0;
        for line in lines.map_while(Result::ok) {
            // Other output of the test harness has no such lines.
            if let Some((name, number)) = line.strip_prefix("ack ").and_then(|rest| rest.split_once(' '))
                && let Ok(number) = number.parse()
            {
                last.insert(name.to_owned(), number);
                count += 1;
            }
            // Not always at the same point.
            if count == 150 + round * 67 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(count >= 150, "only {count} writes in round {round}");
        let server = open(directory.path()).await;
        let stored: BTreeMap<String, u64> = maps(server.client())
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter()
            .map(|map| (map.name_any(), map.data.as_ref().unwrap()["n"].parse().unwrap()))
            .collect();
        for (name, acknowledged) in &last {
            let found = stored.get(name);
            assert!(found >= Some(acknowledged), "{name}: {found:?} is stored, {acknowledged} was acknowledged");
        }
        last = stored;
    }
}

/// Not a test of its own: the process that the one above kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by what_was_acknowledged_survives_being_killed_under_load"]
async fn a_process_that_writes_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let server = open(Path::new(&directory)).await;
    let writers = (0..8).map(|writer| {
        let maps = maps(server.client());
        tokio::spawn(async move {
            let name = format!("w{writer}");
            let start = if let Some(map) = maps.get_opt(&name).await.unwrap() {
                map.data.unwrap()["n"].parse::<u64>().unwrap()
            } else {
                maps.create(&PostParams::default(), &map(&name)).await.unwrap();
                0
            };
            for number in start + 1.. {
                let change = Patch::Merge(json!({"data": {"n": number.to_string()}}));
                maps.patch(&name, &PatchParams::default(), &change).await.unwrap();
                println!("ack {name} {number}");
            }
        })
    });
    futures::future::join_all(writers).await;
}
