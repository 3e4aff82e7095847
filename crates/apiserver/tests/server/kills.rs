//! A server that is killed at any moment, again and again.
//!
//! The child is the server with clients that write and one that watches. It prints each attempt
//! and each acknowledgement; everything printed before it died must hold for the next server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::durability::{map, maps, open};

/// Names the directory for the process that is going to be killed.
const DIRECTORY: &str = "KUBEOPENCODE_TEST_STATE_DIRECTORY";
/// Names the last version that the watch of an earlier process showed.
const LAST_WATCHED: &str = "KUBEOPENCODE_TEST_LAST_WATCHED_VERSION";
const KILLS: u64 = 200;
const WRITERS: usize = 8;
/// Most are killed after so many acknowledged writes at most, and so many milliseconds.
const MOST_WRITES: u64 = 24;
const LONGEST: u64 = 8;

/// The content and the version of an object.
type ObjectState = (u64, u64);

/// Numbers that look like chance and are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The state that the next server must have.
#[derive(Default)]
struct Model {
    /// Objects that were acknowledged, or found by the server before.
    objects: BTreeMap<String, ObjectState>,
    /// By writer, the object that it was writing, and the content that it was giving it; none to remove it.
    under_way: BTreeMap<String, (String, Option<u64>)>,
    /// The newest version that a client received.
    newest: u64,
    given: BTreeSet<u64>,
    /// Objects as the watch shows them, and up to which version.
    view: BTreeMap<String, ObjectState>,
    last_watched: u64,
    writes: u64,
    /// How many watches showed at least one event.
    watches: u64,
    /// How often the watch had to begin with a list, as the first one does.
    listed_again: u64,
}

impl Model {
    /// Reads a line of a child, and checks the objects that a new one found.
    fn read_line(&mut self, line: &str, found: &mut BTreeMap<String, ObjectState>) {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{line}"));
        match fields.as_slice() {
            ["found", name, content, version] => {
                found.insert((*name).to_owned(), (number(content), number(version)));
            }
            ["list", version] => self.check(found, number(version)),
            ["try", writer, name, content] => {
                let content = (*content != "-").then(|| number(content));
                self.under_way.insert((*writer).to_owned(), ((*name).to_owned(), content));
            }
            ["ack", writer, version] => {
                let (name, content) = self.under_way.remove(*writer).unwrap();
                self.writes += 1;
                let Some(content) = content else {
                    self.objects.remove(&name);
                    return;
                };
                let version = number(version);
                assert!(self.given.insert(version), "version {version} was given twice");
                let before = self.objects.insert(name.clone(), (content, version));
                assert!(before.is_none_or(|(_, before)| before < version), "{name}: {version} after {before:?}");
                self.newest = self.newest.max(version);
            }
            ["resumed"] => self.watches += 1,
            ["stale", version] => {
                self.listed_again += 1;
                self.view.clone_from(found);
                self.last_watched = number(version);
            }
            ["seen", version, name, content] => {
                let version = number(version);
                assert!(version > self.last_watched, "the watch shows {version} after {}", self.last_watched);
                self.last_watched = version;
                if *content == "-" {
                    self.view.remove(*name);
                } else {
                    self.view.insert((*name).to_owned(), (number(content), version));
                }
            }
            // The test harness prints lines of its own.
            _ => {}
        }
    }

    /// Checks the objects that a server found, which may include writes that were under way, and continues from there.
    fn check(&mut self, found: &BTreeMap<String, ObjectState>, version: u64) {
        assert!(version >= self.newest, "the server is at {version}, and gave out {} before", self.newest);
        let mut expected = std::mem::take(&mut self.objects);
        for (name, content) in std::mem::take(&mut self.under_way).into_values() {
            let now = found.get(&name);
            let done = now.map(|(content, _)| *content) == content;
            if done && now != expected.get(&name) {
                if let Some((_, version)) = now {
                    assert!(self.given.insert(*version), "{name}: version {version} was given twice");
                }
                expected.remove(&name);
                expected.extend(now.map(|now| (name, *now)));
            }
        }
        assert_eq!(*found, expected, "what was acknowledged (right) is not what is there (left)");
        for (name, shown) in &self.view {
            let now = found.get(name);
            assert!(
                now.is_none_or(|now| now.1 > self.last_watched || now == shown),
                "{name}: the watch shows {shown:?}, there is {now:?}"
            );
        }
        for (name, now) in found.iter().filter(|(_, (_, version))| *version <= self.last_watched) {
            assert_eq!(self.view.get(name), Some(now), "{name}: the watch missed it");
        }
        self.objects = expected;
        self.newest = self.newest.max(version);
    }
}

fn start(directory: &Path, last_watched: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::a_server_under_load_until_it_is_killed", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(LAST_WATCHED, last_watched.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[test]
fn what_was_acknowledged_survives_two_hundred_kills_under_load() {
    let directory = tempfile::tempdir().unwrap();
    let mut chance = Chance(0x5eed);
    let mut model = Model::default();
    for round in 0..KILLS {
        let mut child = start(directory.path(), model.last_watched);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let child = Arc::new(Mutex::new(child));
        let kill_in = |milliseconds: u64| {
            let child = Arc::clone(&child);
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(milliseconds));
                // It is there: it ends in no other way.
                child.lock().unwrap().kill().unwrap();
            })
        };
        // One in eight dies while it starts.
        let early = chance.below(8) == 0 && round > 0;
        let mut killer = early.then(|| kill_in(chance.below(LONGEST * 16)));
        let mut found = BTreeMap::new();
        let enough = model.writes + 1 + chance.below(MOST_WRITES);
        for line in lines.map_while(Result::ok) {
            model.read_line(&line, &mut found);
            if killer.is_none() && model.writes >= enough {
                killer = Some(kill_in(chance.below(LONGEST)));
            }
        }
        let Some(killer) = killer else { panic!("the server of round {round} ended by itself") };
        killer.join().unwrap();
        child.lock().unwrap().wait().unwrap();
    }
    assert!(model.writes > KILLS * 5, "only {} writes were acknowledged", model.writes);
    println!(
        "{KILLS} kills, {} acknowledged writes, {} watches, of which {} began with a list",
        model.writes, model.watches, model.listed_again
    );
    assert!(model.watches > KILLS / 2, "only {} watches showed anything", model.watches);
    assert!(model.listed_again < KILLS / 20, "{} watches did not go on", model.listed_again);
}

/// Not a test of its own: the process that the one above kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by what_was_acknowledged_survives_two_hundred_kills_under_load"]
async fn a_server_under_load_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    // The harness may have begun a line.
    print_line("");
    let server = open(Path::new(&directory)).await;
    let maps = maps(server.client());
    let list = maps.list(&ListParams::default()).await.unwrap();
    for found in &list.items {
        println!("found {} {} {}", found.name_any(), content(found), found.resource_version().unwrap());
    }
    let version = list.metadata.resource_version.unwrap();
    println!("list {version}");
    let last_watched = std::env::var(LAST_WATCHED).unwrap();
    let writers = (0..WRITERS).map(|writer| {
        let there = list.items.iter().filter(|map| map.name_any().starts_with(&format!("w{writer}")));
        tokio::spawn(write(maps.clone(), writer, there.map(content).max()))
    });
    futures::future::join(watch(&maps, &last_watched, &version), futures::future::join_all(writers)).await;
}

fn content(map: &ConfigMap) -> u64 {
    map.data.as_ref().unwrap()["n"].parse().unwrap()
}

/// Changes one object, makes others and removes them, for ever.
async fn write(maps: Api<ConfigMap>, writer: usize, last: Option<u64>) {
    let kept = format!("w{writer}");
    for number in last.map_or(0, |last| last + 1).. {
        let fleeting = format!("w{writer}-{number}");
        print_line(&format!("try {writer} {kept} {number}"));
        let change = Patch::Merge(json!({"data": {"n": number.to_string()}}));
        let written = match maps.patch(&kept, &PatchParams::default(), &change).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let mut new = map(&kept);
                new.data = Some([("n".to_owned(), number.to_string())].into());
                maps.create(&PostParams::default(), &new).await.unwrap()
            }
            other => other.unwrap(),
        };
        print_line(&format!("ack {writer} {}", written.resource_version().unwrap()));
        if number % 3 == 0 {
            print_line(&format!("try {writer} {fleeting} 0"));
            let written = maps.create(&PostParams::default(), &map(&fleeting)).await.unwrap();
            print_line(&format!("ack {writer} {}", written.resource_version().unwrap()));
            print_line(&format!("try {writer} {fleeting} -"));
            maps.delete(&fleeting, &DeleteParams::default()).await.unwrap();
            print_line(&format!("ack {writer} 0"));
        }
    }
}

/// Continues where the previous watch ended, or with a list if that version is too old.
async fn watch(maps: &Api<ConfigMap>, last_watched: &str, version: &str) {
    let params = WatchParams::default();
    let mut events = match maps.watch(&params, last_watched).await {
        Ok(events) if last_watched != "0" => events.boxed(),
        Err(error) if !matches!(&error, kube::Error::Api(status) if status.code == 410) => panic!("{error}"),
        _ => {
            print_line(&format!("stale {version}"));
            maps.watch(&params, version).await.unwrap().boxed()
        }
    };
    let mut resumed = false;
    loop {
        let event = events.try_next().await.unwrap().unwrap();
        // An expired version is reported by an event, too.
        if let WatchEvent::Error(status) = &event {
            assert_eq!(status.code, 410, "{status:?}");
            print_line(&format!("stale {version}"));
            events = maps.watch(&params, version).await.unwrap().boxed();
            continue;
        }
        if !std::mem::replace(&mut resumed, true) {
            print_line("resumed");
        }
        let (map, content) = match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                let content = content(&map).to_string();
                (map, content)
            }
            WatchEvent::Deleted(map) => (map, "-".to_owned()),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
        };
        print_line(&format!("seen {} {} {content}", map.resource_version().unwrap(), map.name_any()));
    }
}

/// Writes a line in one piece: the content of the pipe survives the process.
fn print_line(line: &str) {
    println!("{line}");
}
