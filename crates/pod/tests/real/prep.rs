//! prep: inputs and caches are in place before the run, or the run does without them.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use api::kinds::task::CacheHit;
use domain::contract::collect::{FetchReport, FetchedCache};
use domain::contract::depot::RefusalReason;
use egress::Authorities;
use kubeopencode_pod::depot;
use kubeopencode_pod::outcome::ReportFile;
use kubeopencode_pod::prep::{self, Error, Settings};
use serde_json::{Value, json};

use crate::support::LIMIT;
use crate::support::depot::{Depot, Fault};

struct Case {
    directory: tempfile::TempDir,
    depot: Depot,
    settings: Settings,
}

impl Case {
    /// A run that fetches this, with `WORKSPACE` for its workspace.
    async fn new(fetch: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let depot = Depot::start().await;
        let path = |name: &str| directory.path().join(name);
        for name in ["collect", "workspace"] {
            fs::create_dir(path(name)).unwrap();
        }
        fs::write(path("token"), "token").unwrap();
        let fetch = fetch.to_string().replace("WORKSPACE", &path("workspace").display().to_string());
        let settings = Settings {
            fetch: serde_json::from_str(&fetch).unwrap(),
            depot: Some(depot::Settings {
                url: depot.url(),
                token_file: path("token"),
                authorities: Authorities::default(),
                silence: LIMIT,
            }),
            companion: None,
            collect: path("collect"),
            workspace: path("workspace"),
            report: ReportFile { path: path("outcome"), most_bytes: 4096 },
            inputs_timeout: LIMIT,
            optional_timeout: LIMIT,
            patience: LIMIT,
        };
        Self { directory, depot, settings }
    }

    async fn input() -> Self {
        let case = Self::new(json!({"inputs": [input(false)]})).await;
        case.depot.add_input("build", "dist", &[("bin/app", "app"), ("README", "text")]);
        case
    }

    async fn cache() -> Self {
        let case =
            Self::new(json!({"caches": [{"name": "go", "key": "go-1", "restoreKeys": ["go-"], "paths": ["m"]}]})).await;
        case.depot.add_cache("go", "go-1", &[("m/a", "a"), ("m/b", "b"), ("was", "cached")]);
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    async fn run(&self) -> Result<FetchReport, Error> {
        let done = tokio::time::timeout(LIMIT * 2, prep::run(&self.settings)).await.unwrap();
        let left: Vec<_> =
            fs::read_dir(self.path("collect")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "caches.json"), "{left:?}");
        done
    }

    /// The one note of a run whose cache is a miss, and whose workspace is untouched.
    async fn missed(&self) -> String {
        let report = self.run().await.unwrap();
        assert_eq!(report.caches[0].hit, Some(CacheHit::Miss));
        assert!(!self.path("workspace/m").exists());
        let [note] = &report.notes[..] else { panic!("{:?}", report.notes) };
        note.clone()
    }
}

fn input(optional: bool) -> Value {
    json!({"fromTask": "build", "artifact": "dist", "mountPath": "WORKSPACE/in/dist", "optional": optional})
}

#[tokio::test]
async fn inputs_and_caches_are_in_place() {
    let fetch = json!({
        "inputs": [input(false)],
        "caches": [
            {"name": "exact", "key": "go-{{ hash \"go.sum\" }}", "restoreKeys": ["go-"], "paths": ["x"]},
            {"name": "prefix", "key": "new", "restoreKeys": ["none-", "old-"], "paths": ["x"], "policy": "Pull"},
            {"name": "miss", "key": "k", "paths": ["x"]},
            {"name": "push", "key": "k", "paths": ["x"], "policy": "Push"},
            {"name": "keyless", "key": "{{ hash \"nothing\" }}", "paths": ["x"]},
            {"name": "wrong", "key": "{{ env \"HOME\" }}", "paths": ["x"]},
        ],
    });
    let case = Case::new(fetch).await;
    fs::write(case.path("workspace/go.sum"), "sum").unwrap();
    let hash = fileset::hash(&case.path("workspace"), "go.sum", fileset::HashLimits::default()).unwrap();
    let key = format!("go-{hash}");
    case.depot.add_input("build", "dist", &[("bin/app", "app"), ("README", "text")]);
    // A key depends on the workspace before anything is restored.
    case.depot.add_cache("exact", &key, &[("exact/a", "a"), ("go.sum", "changed")]);
    case.depot.add_cache("prefix", "old-1", &[("prefix", "old")]);
    case.depot.add_cache("prefix", "old-2", &[("prefix", "newest")]);
    case.depot.add_cache("push", "k", &[("push", "x")]);
    let report = case.run().await.unwrap();
    let cache =
        |name: &str, hit: Option<CacheHit>, bytes: u64| FetchedCache { name: name.to_owned(), hit, bytes, seconds: 0 };
    let hits: Vec<FetchedCache> =
        report.caches.iter().map(|cache| FetchedCache { seconds: 0, ..cache.clone() }).collect();
    assert_eq!(
        hits,
        [
            cache("exact", Some(CacheHit::Exact), 8),
            cache("prefix", Some(CacheHit::Prefix), 6),
            cache("miss", Some(CacheHit::Miss), 0),
            cache("push", None, 0),
            cache("keyless", None, 0),
            cache("wrong", None, 0),
        ]
    );
    let [keyless, wrong] = &report.notes[..] else { panic!("{:?}", report.notes) };
    assert_eq!(keyless, "cache \"keyless\" is not used: no file matches \"nothing\"");
    assert!(wrong.starts_with("cache \"wrong\" is not used: `{{ env \"HOME\" }}` is not a placeholder"), "{wrong}");
    let written = case.read("outcome").unwrap();
    assert_eq!(FetchReport::read(&written), Some(report));
    for (file, content) in
        [("in/dist/bin/app", "app"), ("in/dist/README", "text"), ("exact/a", "a"), ("prefix", "newest")]
    {
        assert_eq!(case.read(&format!("workspace/{file}")).as_deref(), Some(content), "{file}");
    }
    assert!(!case.path("workspace/push").exists());
    let keys: Value = serde_json::from_str(&case.read("collect/caches.json").unwrap()).unwrap();
    let entry = |name: &str, key: &str, exact: bool| json!({"name": name, "key": key, "exact": exact});
    let expected = [
        entry("exact", &key, true),
        entry("prefix", "new", false),
        entry("miss", "k", false),
        entry("push", "k", false),
    ];
    assert_eq!(keys, json!(expected));
}

#[tokio::test]
async fn a_missing_input_fails_the_run_unless_it_is_optional() {
    let case = Case::new(json!({"inputs": [input(false)]})).await;
    let error = case.run().await.unwrap_err().to_string();
    assert_eq!(error, "this depot says NotFound; check the input, or make it optional");
    assert!(!case.path("outcome").exists());
    let case = Case::new(json!({"inputs": [input(true)]})).await;
    let report = case.run().await.unwrap();
    assert_eq!(report.notes, [format!("continuing without an optional input: {error}")]);
}

#[tokio::test]
async fn a_download_continues_where_it_was_cut() {
    let case = Case::input().await;
    let content = "GET /v1/inputs/build/dist/content";
    case.depot.fail("GET /v1/inputs/build/dist", 1, Fault::Refuse(RefusalReason::Unavailable));
    case.depot.fail(content, 1, Fault::Cut(100));
    case.depot.fail(content, 1, Fault::Answer(503, ""));
    case.run().await.unwrap();
    assert_eq!(case.read("workspace/in/dist/bin/app").as_deref(), Some("app"));
    let store = case.depot.store();
    let ranges: Vec<Option<&str>> = store
        .requests
        .iter()
        .filter(|(request, _)| request == content)
        .map(|(_, headers)| headers.get("range").map(|range| range.to_str().unwrap()))
        .collect();
    assert_eq!(ranges, [None, Some("bytes=100-"), Some("bytes=100-")]);
}

#[tokio::test]
async fn a_redirect_is_followed_without_the_token() {
    let case = Case::input().await;
    case.depot.fail("GET /v1/inputs/build/dist/content", 100, Fault::Redirect);
    case.run().await.unwrap();
    assert_eq!(case.read("workspace/in/dist/README").as_deref(), Some("text"));
    assert_eq!(case.depot.requests("GET /elsewhere/"), 1);
    // A redirect to itself has an end.
    let case = Case::input().await;
    case.depot.fail("GET ", 2, Fault::Answer(500, ""));
    case.depot.fail("GET /v1/inputs/build/dist/content", 1, Fault::Redirect);
    case.depot.fail("GET /elsewhere", 100, Fault::Redirect);
    let error = case.run().await.unwrap_err().to_string();
    assert!(error.ends_with("it redirects too often"), "{error}");
}

#[tokio::test]
async fn damaged_bytes_are_downloaded_again_and_never_unpacked() {
    let case = Case::input().await;
    case.depot.fail("GET /v1/inputs/build/dist/content", 1, Fault::Damage);
    case.run().await.unwrap();
    assert_eq!(case.read("workspace/in/dist/bin/app").as_deref(), Some("app"));
    let case = Case::input().await;
    case.depot.fail("GET /v1/inputs/build/dist/content", 100, Fault::Damage);
    let error = case.run().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "artifact \"dist\" of Task \"build\" cannot be put in place: the bytes in the store are not those of their SHA-256"
    );
    assert!(!case.path("workspace/in").exists());
    assert_eq!(case.depot.requests("GET /v1/inputs/build/dist/content"), 2);
    let case = Case::cache().await;
    case.depot.fail("GET /v1/caches/go/content", 100, Fault::Damage);
    let note = case.missed().await;
    assert!(note.starts_with("cache \"go\" is not restored: the bytes in the store"), "{note}");
}

#[tokio::test]
async fn a_manifest_that_leads_out_is_refused() {
    for hostile in ["../../escaped", "/tmp/escaped", "a/../../escaped"] {
        let replace = |manifest: &Value| {
            serde_json::from_str::<Value>(
                &manifest.to_string().replacen("README", hostile, 1).replacen("m/a", hostile, 1),
            )
            .unwrap()
        };
        let case = Case::input().await;
        for found in case.depot.store().inputs.values_mut() {
            found.manifest = replace(&found.manifest);
        }
        let error = case.run().await.unwrap_err().to_string();
        assert!(error.contains("the answer of the depot cannot be read"), "{error}");
        let case = Case::cache().await;
        for (_, _, found) in &mut case.depot.store().caches {
            found.manifest = replace(&found.manifest);
        }
        assert!(case.missed().await.contains("cannot be read"));
        assert!(!case.path("escaped").exists());
    }
}

#[tokio::test]
async fn a_manifest_of_other_files_leaves_no_part_of_a_cache() {
    let case = Case::cache().await;
    fs::write(case.path("workspace/was"), "mine").unwrap();
    let other = case.depot.pack(&[("m/a", "a"), ("m/b", "c"), ("was", "cached")]);
    for (_, _, found) in &mut case.depot.store().caches {
        // Everything fits but the content of one file.
        found.manifest = Value::Object(other.manifest.as_object().unwrap().clone());
        found.manifest["bytes"] = found.bytes.into();
    }
    let note = case.missed().await;
    assert!(note.contains("\"m/b\"") && note.contains("SHA-256"), "{note}");
    assert!(case.path("workspace/was").exists(), "what was there stays");
}

#[tokio::test]
async fn an_entry_of_another_key_is_a_miss() {
    let case = Case::cache().await;
    case.depot.add_cache("go", "other", &[("m/a", "poison")]);
    let publication = case.depot.store().caches[1].2.clone();
    let found = json!({"key": "other", "digest": publication.digest, "bytes": publication.bytes, "manifest": publication.manifest});
    case.depot.fail("GET /v1/caches/go", 1, Fault::Answer(200, found.to_string().leak()));
    assert!(case.missed().await.ends_with("it found an entry of another key"));
}

#[tokio::test]
async fn without_a_depot_a_run_that_fetches_only_caches_starts() {
    let mut case = Case::cache().await;
    case.settings.depot.as_mut().unwrap().url = "http://127.0.0.1:9".parse().unwrap();
    case.settings.optional_timeout = Duration::from_secs(1);
    assert!(case.missed().await.contains("the connection to the depot failed"));
    let mut case = Case::input().await;
    case.settings.depot.as_mut().unwrap().url = "http://127.0.0.1:9".parse().unwrap();
    case.settings.inputs_timeout = Duration::from_secs(1);
    let error = case.run().await.unwrap_err().to_string();
    assert!(error.contains("the connection to the depot failed"), "{error}");
}

#[tokio::test]
async fn waiting_for_a_depot_has_a_limit() {
    let mut case = Case::input().await;
    case.settings.inputs_timeout = Duration::from_secs(1);
    case.depot.fail("GET /v1/inputs/build/dist/content", 100, Fault::Hang);
    let error = case.run().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the inputs were not in place within 1s: artifact \"dist\" of Task \"build\" took too long; raise startupTimeout, which includes them"
    );
    let mut case = Case::cache().await;
    case.settings.optional_timeout = Duration::from_secs(1);
    case.depot.fail("GET /v1/caches/go/content", 100, Fault::Hang);
    assert!(case.missed().await.ends_with("it took longer than 1s"));
    let mut case = Case::cache().await;
    case.settings.depot.as_mut().unwrap().silence = Duration::from_millis(300);
    case.depot.fail("GET /v1/caches/go", 1, Fault::Hang);
    case.depot.fail("GET /v1/caches/go/content", 1, Fault::Hang);
    assert_eq!(case.run().await.unwrap().caches[0].hit, Some(CacheHit::Exact));
}

#[tokio::test]
async fn what_a_run_can_do_without_is_given_up_early() {
    let cache = |name: &str| json!({"name": name, "key": "k", "paths": ["m"]});
    let fetch = json!({"inputs": [input(true)], "caches": [cache("go"), cache("npm")]});
    for hangs in [false, true] {
        let mut case = Case::new(fetch.clone()).await;
        case.settings.patience = Duration::from_secs(1);
        let problem = if hangs {
            case.depot.fail("GET ", 100, Fault::Hang);
            "the depot did nothing for 1 s"
        } else {
            case.settings.depot.as_mut().unwrap().url = "http://127.0.0.1:9".parse().unwrap();
            "the connection to the depot failed"
        };
        let report = case.run().await.unwrap();
        let [input, go, npm] = &report.notes[..] else { panic!("{:?}", report.notes) };
        assert!(input.starts_with("continuing without an optional input: ") && input.contains(problem), "{input}");
        for (note, name) in [(go, "go"), (npm, "npm")] {
            assert!(note.starts_with(&format!("cache \"{name}\" is not restored: {problem}")), "{note}");
        }
    }
}

#[tokio::test]
async fn an_input_is_not_written_through_a_link() {
    let case = Case::input().await;
    fs::create_dir(case.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(case.path("elsewhere"), case.path("workspace/in")).unwrap();
    let error = case.run().await.unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    assert_eq!(fs::read_dir(case.path("elsewhere")).unwrap().count(), 0);
}
