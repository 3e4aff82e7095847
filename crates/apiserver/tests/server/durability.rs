//! The stored objects after the process ends, in order or not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use kubeopencode_apiserver::{ApiServer, Options, Storage};
use serde_json::json;

pub(crate) async fn open(directory: &Path) -> ApiServer {
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

pub(crate) fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

pub(crate) fn map(name: &str) -> ConfigMap {
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

/// A power failure: any part of the writes that were not synchronised may be missing or torn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_torn_end_of_the_log_takes_nothing_that_was_acknowledged() {
    const LATER: usize = 12;
    // No divisor of anything about a log: they are within a frame, within its header, and between two.
    const CUTS: u64 = 31;
    let directory = tempfile::tempdir().unwrap();
    let server = open(directory.path()).await;
    let writer = maps(server.client());
    for number in 0..20 {
        writer.create(&PostParams::default(), &map(&format!("acknowledged-{number:02}"))).await.unwrap();
    }
    writer.delete("acknowledged-19", &DeleteParams::default()).await.unwrap();
    let log = |directory: &Path| directory.join("objects.db-wal");
    let acknowledged = fs::metadata(log(directory.path())).unwrap().len();
    // One after the other, so that each is a commit of its own. The power fails before they are synchronised.
    for number in 0..LATER {
        writer.create(&PostParams::default(), &map(&format!("later-{number:02}"))).await.unwrap();
    }
    let whole = fs::read(log(directory.path())).unwrap();
    let tail = u64::try_from(whole.len()).unwrap() - acknowledged;
    assert!(tail > 0, "nothing was appended: the log was started anew");

    let mut kept = Vec::new();
    for step in 0..=CUTS {
        let cut = usize::try_from(acknowledged + tail * step / CUTS).unwrap();
        let torn = tempfile::tempdir().unwrap();
        fs::copy(directory.path().join("objects.db"), torn.path().join("objects.db")).unwrap();
        let mut rest = whole[..cut].to_vec();
        if step % 2 == 1 {
            // The file was extended, but its content was not written.
            rest.resize(whole.len(), 0xa5);
        }
        fs::write(log(torn.path()), rest).unwrap();
        let server = open(torn.path()).await;
        let names: Vec<String> = maps(server.client())
            .list(&ListParams::default())
            .await
            .unwrap()
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        let (first, later) = names.split_at(19.min(names.len()));
        let expected: Vec<String> = (0..19).map(|number| format!("acknowledged-{number:02}")).collect();
        assert_eq!(first, expected, "cut at {cut} of {}", whole.len());
        // Later writes are there up to some point, and none after it.
        let expected: Vec<String> = (0..later.len()).map(|number| format!("later-{number:02}")).collect();
        assert_eq!(later, expected, "cut at {cut} of {}", whole.len());
        // And it goes on.
        maps(server.client()).create(&PostParams::default(), &map("next")).await.unwrap();
        kept.push(later.len());
    }
    assert!(kept.is_sorted(), "{kept:?}");
    assert_eq!((kept.first(), kept.last()), (Some(&0), Some(&LATER)), "{kept:?}");
}
