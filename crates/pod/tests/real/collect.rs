//! The housekeeper: what is stored after each end of a run, and what is not.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use api::kinds::task::TaskChanges;
use domain::contract::collect::{CollectFailure, CollectReport, MOST_CONTENT_BYTES, MOST_PATCH_BYTES};
use domain::contract::depot::RefusalReason;
use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use egress::Authorities;
use kubeopencode_pod::housekeeper::{self, Settings};
use kubeopencode_pod::{depot, env, publish};
use rustix::fs::FlockOperation;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::depot::{Depot, Fault};
use crate::support::git::{Origin, git};
use crate::support::helper::{Helper, command};
use crate::support::{LIMIT, lookup, until};

const TOKEN: &str = "a-token-that-nobody-may-see";

struct Case {
    directory: tempfile::TempDir,
    depot: Depot,
    settings: Settings,
}

impl Case {
    /// A run whose agent's container is over.
    async fn new(keep: Value) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let depot = Depot::start().await;
        for name in ["results", "collect", "workspace"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("token"), format!("{TOKEN}\n")).unwrap();
        fs::write(directory.path().join("results/lock"), "").unwrap();
        let path = |name: &str| directory.path().join(name);
        let settings = Settings {
            keep: serde_json::from_value(keep).unwrap(),
            depot: Some(depot::Settings {
                url: depot.url(),
                token_file: path("token"),
                authorities: Authorities::default(),
                silence: LIMIT,
            }),
            companion: None,
            publish: None,
            timeout: LIMIT,
            results: path("results"),
            collect: path("collect"),
            workspace: path("workspace"),
            stop_grace: LIMIT,
            publishing_time: LIMIT / 2,
        };
        Self { directory, depot, settings }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn ended(&self, reason: Reason) {
        self.write("results/report.json", RunReport::new(reason, "").into_termination_message(4096));
    }

    async fn run(&self) -> CollectReport {
        tokio::time::timeout(LIMIT * 2, housekeeper::run(&self.settings, std::future::pending())).await.unwrap()
    }

    async fn failure(&self) -> (CollectFailure, String) {
        let failure = self.run().await.failure.unwrap();
        (failure.reason, failure.message)
    }

    fn artifacts(&self) -> Vec<String> {
        self.depot.store().artifacts.keys().cloned().collect()
    }

    /// The housekeeper as a program.
    fn start(&self, keep: &Value) -> Helper {
        let depot = self.settings.depot.as_ref().unwrap();
        let text = |path: &PathBuf| path.display().to_string();
        let outcome = text(&self.path("outcome"));
        let pairs = [
            (env::KEEP, keep.to_string()),
            (env::DEPOT_URL, depot.url.to_string()),
            (env::DEPOT_TOKEN_FILE, text(&depot.token_file)),
            (env::RESULTS_DIR, text(&self.settings.results)),
            (env::COLLECT_DIR, text(&self.settings.collect)),
            (env::WORKSPACE_DIR, text(&self.settings.workspace)),
            (env::OUTCOME_FILE, outcome),
        ];
        // As in a Pod with a proxy, which the depot is not behind.
        let mut pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        pairs.extend([("http_proxy", "http://127.0.0.1:9"), ("no_proxy", "")]);
        Helper::start(command("housekeeper", &[], &pairs))
    }

    fn message(&self) -> CollectReport {
        let text = fs::read_to_string(self.path("outcome")).unwrap();
        CollectReport::read(&text).unwrap_or_else(|| panic!("{text}"))
    }
}

fn dist() -> Value {
    json!({"artifacts": [{"name": "dist", "paths": ["dist/**"]}]})
}

#[tokio::test]
async fn everything_that_a_successful_run_left_is_stored() {
    let keep = json!({
        "artifacts": [{"name": "dist", "paths": ["dist/**", "!dist/tmp"]}, {"name": "logs", "paths": ["**/*.log"], "when": "Always"},
            {"name": "crash", "paths": ["**"], "when": "OnFailure"}],
        "outputs": ["version", "notes"],
        "caches": [{"name": "go", "key": "unused", "paths": ["go/pkg"]}, {"name": "npm", "key": "unused", "paths": ["npm"]},
            {"name": "pull", "key": "unused", "paths": ["go"], "policy": "Pull"}, {"name": "keyless", "key": "x", "paths": ["go"]}],
        "changes": true,
    });
    let case = Case::new(keep).await;
    case.write("workspace/dist/app", "app");
    case.write("workspace/dist/tmp/x", "x");
    case.write("workspace/dist/a.log", "log");
    case.write("workspace/.kubeopencode/secret.log", "context");
    case.write("workspace/go/pkg/m", "module");
    case.write("workspace/npm/m", "module");
    case.write("results/outputs", "version=1.2\nother=x\nnotes<<E\na\nb\nE\n");
    case.write("results/changes.patch", "diff --git a b");
    let keys = json!([{"name": "go", "key": "go-1", "exact": false}, {"name": "npm", "key": "npm-1", "exact": true},
        {"name": "pull", "key": "pull-1", "exact": false}]);
    case.write("collect/caches.json", keys.to_string());
    case.ended(Reason::Succeeded);
    assert_eq!(case.run().await, CollectReport { saved_caches: vec!["go".to_owned()], ..CollectReport::default() });
    assert_eq!(case.artifacts(), ["dist", "logs"]);
    let publication = case.depot.store().artifacts["dist"].clone();
    let files = case.depot.unpacked(&publication);
    assert_eq!(fs::read(files.path().join("dist/app")).unwrap(), b"app");
    assert!(!files.path().join("dist/tmp").exists());
    assert_eq!(publication.files, 2);
    let logs = case.depot.store().artifacts["logs"].clone();
    assert_eq!(logs.files, 1, "the platform's own directory is not the run's");
    let store = case.depot.store();
    assert_eq!(store.outputs, Some(json!({"notes": "a\nb", "version": "1.2"})));
    let changes = store.changes.clone().unwrap();
    assert_eq!(store.blobs[&changes.digest], b"diff --git a b");
    let caches: Vec<(&str, &str)> = store.caches.iter().map(|(name, key, _)| (name.as_str(), key.as_str())).collect();
    assert_eq!(caches, [("go", "go-1")]);
    let bearer = format!("Bearer {TOKEN}");
    assert!(store.requests.iter().all(|(_, headers)| headers["authorization"] == bearer));
}

#[tokio::test]
async fn a_failed_run_leaves_what_is_kept_after_a_failure() {
    let keep = json!({
        "artifacts": [{"name": "dist", "paths": ["dist"]}, {"name": "crash", "paths": ["core"], "when": "OnFailure"},
            {"name": "log", "paths": ["log"], "when": "Always"}, {"name": "none", "paths": ["none"], "when": "OnFailure", "optional": true}],
        "outputs": ["version", "missing"],
        "caches": [{"name": "go", "key": "k", "paths": ["dist"]}],
    });
    for report in [Some(Reason::ModelError), None] {
        let case = Case::new(keep.clone()).await;
        for file in ["dist", "core", "log"] {
            case.write(&format!("workspace/{file}"), file);
        }
        case.write("results/outputs", "version=1");
        case.write("collect/caches.json", r#"[{"name":"go","key":"k","exact":false}]"#);
        if let Some(reason) = report {
            case.ended(reason);
        }
        let report = case.run().await;
        assert_eq!((report.failure, report.saved_caches.len()), (None, 0));
        assert_eq!(report.notes, ["nothing matches the paths of the optional artifact \"none\""]);
        assert_eq!(case.artifacts(), ["crash", "log"]);
        assert_eq!(case.depot.store().outputs, Some(json!({"version": "1"})));
    }
}

#[tokio::test]
async fn a_required_artefact_that_is_missing_fails_the_run_and_stops_nothing_else() {
    let keep = json!({
        "artifacts": [{"name": "dist", "paths": ["dist/**", "build/*"]}, {"name": "log", "paths": ["log"]}],
        "outputs": ["version"],
    });
    let case = Case::new(keep).await;
    case.write("workspace/log", "log");
    case.write("results/outputs", r#"{"version": 2}"#);
    case.ended(Reason::Succeeded);
    let (reason, message) = case.failure().await;
    assert_eq!(reason, CollectFailure::ArtifactMissing);
    assert_eq!(
        message,
        "nothing matches the paths of artifact \"dist\" (dist/**, build/*); make the run write it, correct its paths, or make it optional"
    );
    assert_eq!(case.artifacts(), ["log"]);
    assert_eq!(case.depot.store().outputs, Some(json!({"version": "2"})));
    assert_eq!(case.depot.requests("PUT /v1/blobs"), 1, "a set without files is not sent");
}

#[tokio::test]
async fn a_declared_output_that_is_missing_fails_a_successful_run() {
    for (written, expected) in [
        (
            None,
            "the run did not write the outputs a, b; it must write KEY=value to the file that $KUBEOPENCODE_OUTPUTS names",
        ),
        (Some("b=1"), "the run did not write the output a; it must"),
        (Some("{\"b\":1} x"), "the run did not write the outputs a, b (the file is not one JSON object"),
        (Some("a<<E\nx"), "the run did not write the outputs a, b (the value from line 1 on has no last line \"E\")"),
    ] {
        let case = Case::new(json!({"outputs": ["a", "b"]})).await;
        if let Some(written) = written {
            case.write("results/outputs", written);
        }
        case.ended(Reason::Succeeded);
        let (reason, message) = case.failure().await;
        assert_eq!(reason, CollectFailure::OutputMissing);
        assert!(message.starts_with(expected), "{message}");
        assert_eq!(case.depot.store().outputs.is_some(), written == Some("b=1"));
    }
}

#[tokio::test]
async fn hostile_results_are_not_read() {
    let keep = json!({"outputs": ["a"], "changes": true});
    for hostile in ["link", "pipe", "directory", "huge", "binary", "large value"] {
        let case = Case::new(keep.clone()).await;
        case.ended(Reason::Succeeded);
        let secret = case.path("secret");
        fs::write(&secret, "a=hunter2").unwrap();
        for name in ["outputs", "changes.patch"] {
            let path = case.path(&format!("results/{name}"));
            match hostile {
                "link" => std::os::unix::fs::symlink(&secret, path).unwrap(),
                "pipe" => {
                    let mode = rustix::fs::Mode::from_raw_mode(0o666);
                    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
                }
                "directory" => fs::create_dir(path).unwrap(),
                "huge" => File::create(path).unwrap().set_len(1 << 40).unwrap(),
                "binary" => fs::write(path, b"a=\xff\0\xfe").unwrap(),
                _ => fs::write(path, format!("a={}", "x".repeat(70_000))).unwrap(),
            }
        }
        let report = case.run().await;
        assert_eq!(report.failure.unwrap().reason, CollectFailure::OutputMissing, "{hostile}");
        let store = case.depot.store();
        assert_eq!(store.outputs, None, "{hostile}");
        assert!(!store.blobs.values().any(|blob| blob.starts_with(b"a=hunter2")), "{hostile}");
        // A patch may have any bytes.
        assert_eq!(store.changes.is_some(), matches!(hostile, "binary" | "large value"), "{hostile}");
    }
}

#[tokio::test]
async fn files_of_any_name_are_kept_and_files_of_other_kinds_are_named() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    let case = Case::new(dist()).await;
    let dist = case.path("workspace/dist");
    fs::create_dir(&dist).unwrap();
    let names: [&[u8]; 4] = [b"two\nlines", b"not \xff\xfe utf-8", b"\x1b[31mred", b"'quoted \"\\"];
    for name in names {
        fs::write(dist.join(OsStr::from_bytes(name)), name).unwrap();
    }
    // Links to a file outside: a hard link is a file, and what a symbolic one leads to is not read.
    fs::write(case.path("secret"), "hunter2").unwrap();
    symlink(case.path("secret"), dist.join("absolute")).unwrap();
    symlink("../../secret", dist.join("upwards")).unwrap();
    symlink("two\nlines", dist.join("inside")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(rustix::fs::CWD, dist.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dist.join("socket")).unwrap();
    case.ended(Reason::Succeeded);
    let report = case.run().await;
    assert_eq!(report.failure, None);
    let [note] = &report.notes[..] else { panic!("{:?}", report.notes) };
    assert!(note.starts_with("artifact \"dist\" is without \"dist/") && note.contains(" and 3 more: "), "{note}");
    let publication = case.depot.store().artifacts["dist"].clone();
    assert!(!publication.manifest.to_string().contains("secret"));
    let files = case.depot.unpacked(&publication);
    for name in names {
        assert_eq!(fs::read(files.path().join("dist").join(OsStr::from_bytes(name))).unwrap(), name);
    }
    assert_eq!(fs::read_link(files.path().join("dist/inside")).unwrap(), PathBuf::from("two\nlines"));
    assert_eq!(fs::read_dir(files.path().join("dist")).unwrap().count(), names.len() + 1);
}

#[tokio::test]
async fn a_file_of_holes_counts_with_its_length() {
    let case = Case::new(dist()).await;
    fs::create_dir(case.path("workspace/dist")).unwrap();
    File::create(case.path("workspace/dist/sparse")).unwrap().set_len(1 << 40).unwrap();
    case.ended(Reason::Succeeded);
    let (reason, message) = case.failure().await;
    assert_eq!(reason, CollectFailure::CollectFailed);
    let expected = format!(
        "artifact \"dist\" cannot be stored: the files have more than {MOST_CONTENT_BYTES} bytes; select fewer"
    );
    assert!(message.starts_with(&expected), "{message}");
    assert_eq!((case.depot.requests(""), case.artifacts().len()), (0, 0));
}

#[tokio::test]
async fn a_patch_beyond_the_limit_is_a_note() {
    let case = Case::new(json!({"changes": true})).await;
    case.ended(Reason::Succeeded);
    for (bytes, kept) in [(MOST_PATCH_BYTES + 1, false), (MOST_PATCH_BYTES, true)] {
        File::create(case.path("results/changes.patch")).unwrap().set_len(bytes).unwrap();
        let report = case.run().await;
        assert_eq!(report.failure, None);
        assert_eq!(report.notes.len(), usize::from(bytes > MOST_PATCH_BYTES), "{:?}", report.notes);
        assert_eq!(case.depot.store().changes.is_some(), kept, "{bytes}");
    }
}

#[tokio::test]
async fn changes_that_are_not_kept_are_a_note() {
    let compared = |files: i64, note: Option<&str>| {
        let note = note.map(str::to_owned);
        let changes = Some(TaskChanges { files: Some(files), note, ..TaskChanges::default() });
        RunReport { changes, ..RunReport::new(Reason::Stopped, "") }
    };
    for (report, expected) in [
        (Some(compared(0, None)), None),
        (Some(compared(1, Some("It is too large."))), Some("It is too large.")),
        (Some(RunReport::new(Reason::Stopped, "")), Some("the workspace was not compared after the run")),
        (None, Some("the agent's container was killed before its workspace was compared")),
    ] {
        let case = Case::new(json!({"changes": true})).await;
        if let Some(report) = report {
            case.write("results/report.json", report.into_termination_message(4096));
        }
        let report = case.run().await;
        let expected: Vec<String> =
            expected.iter().map(|why| format!("no patch of the changes is kept: {why}")).collect();
        assert_eq!((report.failure, report.notes), (None, expected));
    }
}

#[tokio::test]
async fn trouble_that_passes_is_waited_out() {
    let case = Case::new(dist()).await;
    case.write("workspace/dist/a", "a");
    case.ended(Reason::Succeeded);
    case.depot.fail("PUT /v1/blobs", 1, Fault::Refuse(RefusalReason::Unavailable));
    case.depot.fail("PUT /v1/blobs", 1, Fault::Answer(502, "<html>bad gateway</html>"));
    case.depot.fail("PUT /v1/blobs", 1, Fault::Damage);
    case.depot.fail("POST /v1/artifacts/dist", 2, Fault::Refuse(RefusalReason::Unavailable));
    assert_eq!(case.run().await, CollectReport::default());
    assert_eq!(case.artifacts(), ["dist"]);
    assert_eq!((case.depot.requests("PUT"), case.depot.requests("POST")), (4, 3));
}

#[tokio::test]
async fn a_depot_that_does_nothing_is_asked_again() {
    let mut case = Case::new(dist()).await;
    case.settings.depot.as_mut().unwrap().silence = Duration::from_millis(300);
    case.write("workspace/dist/a", "a");
    case.ended(Reason::Succeeded);
    case.depot.fail("PUT /v1/blobs", 1, Fault::Hang);
    case.depot.fail("POST /v1/artifacts/dist", 1, Fault::Hang);
    assert_eq!(case.run().await, CollectReport::default());
    assert_eq!(case.artifacts(), ["dist"]);
}

#[tokio::test]
async fn a_refusal_is_final_and_named() {
    for (request, fault, expected) in [
        ("PUT /v1/blobs", Fault::Refuse(RefusalReason::NotAllowed), "the depot refuses it: this depot says NotAllowed"),
        (
            "POST /v1/artifacts",
            Fault::Refuse(RefusalReason::Conflict),
            "the depot refuses it: this depot says Conflict",
        ),
        ("PUT /v1/blobs", Fault::Answer(404, "not here"), "the depot answers 404 without a reason; check that"),
        ("PUT /v1/blobs", Fault::Answer(200, "<html>welcome</html>"), "the answer of the depot cannot be read"),
    ] {
        let case = Case::new(json!({"artifacts": dist()["artifacts"], "outputs": ["a"]})).await;
        case.write("workspace/dist/a", "a");
        case.write("results/outputs", "a=1");
        case.ended(Reason::Succeeded);
        case.depot.fail(request, 100, fault);
        let (reason, message) = case.failure().await;
        assert_eq!(reason, CollectFailure::CollectFailed);
        let expected = format!("artifact \"dist\" cannot be stored: {expected}");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.ends_with("; stored: outputs; missing: dist"), "{message}");
        assert_eq!((case.depot.requests(request), case.artifacts().len()), (1, 0));
        assert!(case.depot.store().outputs.is_some());
    }
}

#[tokio::test]
async fn a_refusal_before_the_end_of_an_upload_is_final() {
    let case = Case::new(dist()).await;
    // More than fits the buffers of a connection, and not to be compressed.
    let mut number = 1u64;
    let content = std::iter::repeat_with(|| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number.to_le_bytes()[7]
    });
    case.write("workspace/dist/a", content.take(24 << 20).collect::<Vec<u8>>());
    case.ended(Reason::Succeeded);
    case.depot.fail("PUT /v1/blobs", 1, Fault::Cut(1 << 20));
    let report = case.run().await;
    // The connection may end before the answer arrives; then the upload is tried again and succeeds.
    match report.failure {
        Some(failure) => assert!(failure.message.contains("TooLarge"), "{}", failure.message),
        None => assert_eq!((case.artifacts().len(), case.depot.requests("PUT")), (1, 2)),
    }
}

#[tokio::test]
async fn bytes_that_arrive_damaged_are_never_named() {
    let case = Case::new(dist()).await;
    case.write("workspace/dist/a", "a");
    case.ended(Reason::Succeeded);
    case.depot.fail("PUT /v1/blobs", 100, Fault::Damage);
    let (reason, message) = case.failure().await;
    assert_eq!(reason, CollectFailure::CollectFailed);
    assert!(message.contains("are not those of their SHA-256"), "{message}");
    assert_eq!((case.artifacts().len(), case.depot.requests("POST")), (0, 0));
}

#[tokio::test]
async fn what_is_stored_before_the_end_of_the_time_stays() {
    let keep = json!({
        "artifacts": [{"name": "a", "paths": ["a"]}, {"name": "b", "paths": ["a"]}, {"name": "c", "paths": ["a"]}],
        "outputs": ["o"],
    });
    let mut case = Case::new(keep).await;
    case.settings.timeout = Duration::from_secs(2);
    case.write("workspace/a", "a");
    case.write("results/outputs", "o=1");
    case.ended(Reason::Succeeded);
    case.depot.fail("POST /v1/artifacts/b", 1, Fault::Hang);
    let (reason, message) = case.failure().await;
    assert_eq!(reason, CollectFailure::CollectFailed);
    assert_eq!(message, "collecting took longer than 2s (collectTimeout); stored: outputs, a; missing: b, c");
    assert_eq!(case.artifacts(), ["a"]);
    // A run whose last steps are too late has lost nothing that fails it.
    let mut case = Case::new(json!({"caches": [{"name": "go", "key": "k", "paths": ["a"]}]})).await;
    case.settings.timeout = Duration::from_secs(1);
    case.write("workspace/a", "a");
    case.write("collect/caches.json", r#"[{"name":"go","key":"k","exact":false}]"#);
    case.ended(Reason::Succeeded);
    case.depot.fail("PUT /v1/blobs", 1, Fault::Hang);
    let report = case.run().await;
    assert_eq!(report.failure, None);
    assert_eq!(report.notes, ["collecting took longer than 1s (collectTimeout)"]);
}

#[tokio::test]
async fn without_a_depot_the_failure_says_so() {
    let mut case = Case::new(json!({"artifacts": dist()["artifacts"], "outputs": ["a"]})).await;
    case.settings.timeout = Duration::from_secs(1);
    case.settings.depot.as_mut().unwrap().url = "http://127.0.0.1:9".parse().unwrap();
    case.write("workspace/dist/a", "a");
    case.write("results/outputs", "a=1");
    case.ended(Reason::Succeeded);
    let report = case.run().await;
    let failure = report.failure.unwrap();
    assert_eq!(failure.reason, CollectFailure::CollectFailed);
    let message = failure.message;
    assert!(message.starts_with("the outputs cannot be stored: the connection to the depot failed: "), "{message}");
    assert!(message.ends_with("; stored: nothing; missing: outputs, dist"), "{message}");
    fs::remove_file(case.path("token")).unwrap();
    let message = case.failure().await.1;
    assert!(message.contains("token for the depot") && !message.contains(TOKEN), "{message}");
}

#[tokio::test]
async fn trouble_with_caches_is_a_note() {
    let keep = json!({"caches": [{"name": "a", "key": "k", "paths": ["a"]}, {"name": "none", "key": "k", "paths": ["none"]},
        {"name": "bad", "key": "k", "paths": ["../x"]}, {"name": "there", "key": "k", "paths": ["a"]}]});
    let case = Case::new(keep).await;
    case.write("workspace/a", "a");
    case.ended(Reason::Succeeded);
    let notes = case.run().await.notes;
    assert!(notes.len() == 1 && notes[0].starts_with("no cache is saved: "), "{notes:?}");
    let keys = ["a", "none", "bad", "there"].map(|name| json!({"name": name, "key": "k", "exact": false}));
    case.write("collect/caches.json", json!(keys).to_string());
    case.depot.add_cache("there", "k", &[("a", "other")]);
    case.depot.fail("PUT /v1/blobs", 1, Fault::Refuse(RefusalReason::TooLarge));
    let report = case.run().await;
    assert_eq!((report.failure, report.saved_caches), (None, vec![]));
    let [first, second, third] = &report.notes[..] else { panic!("{:?}", report.notes) };
    assert_eq!(first, "cache \"a\" is not saved: the depot refuses it: this depot says TooLarge");
    assert_eq!(second, "cache \"none\" is not saved: nothing matches its paths");
    assert!(third.starts_with("cache \"bad\" is not saved: the pattern"), "{third}");
}

#[tokio::test]
async fn a_run_that_left_too_little_saves_no_cache() {
    for (missing, saved) in
        [(json!({"artifacts": dist()["artifacts"]}), 0), (json!({"outputs": ["a"]}), 0), (json!({}), 1)]
    {
        let mut keep = json!({"caches": [{"name": "go", "key": "k", "paths": ["a"]}]});
        keep.as_object_mut().unwrap().extend(missing.as_object().unwrap().clone());
        let case = Case::new(keep).await;
        case.write("workspace/a", "a");
        case.write("collect/caches.json", r#"[{"name":"go","key":"k","exact":false}]"#);
        case.ended(Reason::Succeeded);
        let report = case.run().await;
        assert_eq!((report.failure.is_some(), report.saved_caches.len()), (saved == 0, saved), "{missing}");
        assert_eq!(case.depot.store().caches.len(), saved, "{missing}");
    }
}

#[tokio::test]
async fn a_second_housekeeper_stores_nothing_twice() {
    let keep = json!({"artifacts": dist()["artifacts"], "outputs": ["a"], "changes": true});
    let case = Case::new(keep).await;
    case.write("workspace/dist/a", "a");
    case.write("results/outputs", "a=1");
    case.write("results/changes.patch", "diff");
    case.ended(Reason::Succeeded);
    for _ in 0..2 {
        assert_eq!(case.run().await, CollectReport::default());
    }
    assert_eq!((case.artifacts(), case.depot.store().blobs.len()), (vec!["dist".to_owned()], 2));
}

/// A run whose checkout has a change, which is to be pushed.
async fn publishing(origin: &Origin, when: &str) -> Case {
    let mut case = Case::new(json!({})).await;
    git(&case.settings.workspace, &["clone", "--quiet", &origin.url(), "app"]);
    case.write("workspace/app/new.txt", "new");
    let keep = json!({
        "artifacts": [{"name": "dist", "paths": ["app/new.txt"]}],
        "publish": {
            "directory": case.path("workspace/app"), "repository": origin.url(), "branch": "agents/fix", "title": "Fix it",
            "settings": {"secretRef": {"name": "git"}, "when": when},
        },
    });
    let pairs = [
        (env::WORKSPACE_DIR, case.settings.workspace.display().to_string()),
        (env::COLLECT_DIR, case.settings.collect.display().to_string()),
        (env::GIT_ALLOW_FILE, "true".to_owned()),
        (env::GIT_CLONE_RETRIES, "1".to_owned()),
    ];
    case.settings.publish = Some(publish::Settings::from_env(&lookup(&pairs)).unwrap());
    case.settings.keep = serde_json::from_value(keep).unwrap();
    case
}

#[tokio::test]
async fn the_changes_of_a_run_are_pushed_after_the_end_that_its_task_names() {
    for (when, reason, pushed) in [
        ("OnSuccess", Reason::Succeeded, true),
        ("OnSuccess", Reason::ModelError, false),
        ("Always", Reason::ModelError, true),
    ] {
        let origin = Origin::new();
        let case = publishing(&origin, when).await;
        case.ended(reason);
        let report = case.run().await;
        assert_eq!(report.failure, None);
        assert_eq!(report.published.is_some(), pushed, "{when}: {:?}", report.notes);
        if let Some(published) = report.published {
            assert_eq!(published.branch.as_deref(), Some("agents/fix"));
            assert_eq!(published.commit.unwrap(), git(&origin.path, &["rev-parse", "agents/fix"]));
            assert_eq!(git(&origin.path, &["show", "agents/fix:new.txt"]), "new");
        }
    }
}

#[tokio::test]
async fn a_run_that_did_not_leave_what_it_had_to_is_not_published_as_a_success() {
    let origin = Origin::new();
    let mut case = publishing(&origin, "OnSuccess").await;
    case.settings.keep.artifacts[0].paths = vec!["none".to_owned()];
    case.ended(Reason::Succeeded);
    let report = case.run().await;
    assert_eq!(report.failure.unwrap().reason, CollectFailure::ArtifactMissing);
    assert_eq!(report.notes, ["the changes are not published, because the run did not leave what it had to"]);
    assert_eq!(git(&origin.path, &["branch", "--list", "agents/*"]), "");
    // The platform lost the artefact: the work itself is good.
    case.settings.keep.artifacts[0].paths = vec!["app".to_owned()];
    case.depot.fail("PUT /v1/blobs", 1, Fault::Refuse(RefusalReason::NotAllowed));
    let report = case.run().await;
    assert_eq!(report.failure.unwrap().reason, CollectFailure::CollectFailed);
    assert!(report.published.is_some(), "{:?}", report.notes);
}

#[tokio::test]
async fn a_depot_that_is_gone_leaves_time_for_publishing() {
    for hangs in [false, true] {
        let origin = Origin::new();
        let mut case = publishing(&origin, "OnSuccess").await;
        case.settings.publishing_time = LIMIT.saturating_sub(Duration::from_secs(3));
        if hangs {
            case.depot.fail("PUT /v1/blobs", 100, Fault::Hang);
        } else {
            case.settings.depot.as_mut().unwrap().url = "http://127.0.0.1:9".parse().unwrap();
        }
        case.ended(Reason::Succeeded);
        let report = case.run().await;
        let failure = report.failure.unwrap();
        assert_eq!(failure.reason, CollectFailure::CollectFailed);
        assert!(failure.message.ends_with("; stored: agents/fix; missing: dist"), "{}", failure.message);
        let late = "storing took longer than 3s; the rest of the time is for publishing";
        assert!(!hangs || failure.message.starts_with(late), "{}", failure.message);
        assert!(report.published.is_some(), "{:?}", report.notes);
    }
}

#[tokio::test]
async fn changes_that_cannot_be_pushed_fail_the_run() {
    let origin = Origin::new();
    let case = publishing(&origin, "OnSuccess").await;
    case.ended(Reason::Succeeded);
    fs::remove_dir_all(case.path("workspace/app/.git")).unwrap();
    let report = case.run().await;
    let failure = report.failure.unwrap();
    assert_eq!((failure.reason, report.published), (CollectFailure::PublishFailed, None));
    assert!(failure.message.contains("is no checkout any more"), "{}", failure.message);
    assert_eq!(case.artifacts(), ["dist"]);
}

#[tokio::test]
async fn the_housekeeper_waits_for_the_shim_and_reads_its_report() {
    let case = Case::new(json!({"artifacts": dist()["artifacts"], "outputs": ["a"]})).await;
    fs::remove_file(case.path("results/lock")).unwrap();
    let running = case.run();
    let script = format!(
        "mkdir -p {0}/workspace/dist; echo x > {0}/workspace/dist/a; test -e {0}/results/lock && echo a=1 > \"$KUBEOPENCODE_OUTPUTS\"",
        case.directory.path().display()
    );
    let shim = shim(&case, &["sh", "-c", &script], &[]);
    let (report, finished) = tokio::join!(running, tokio::task::spawn_blocking(move || shim.finish(LIMIT)));
    assert_eq!(finished.unwrap().code, Some(0));
    assert_eq!(report, CollectReport::default());
    assert_eq!(
        (case.artifacts(), case.depot.store().outputs.clone()),
        (vec!["dist".to_owned()], Some(json!({"a": "1"})))
    );
}

#[tokio::test]
async fn a_killed_shim_frees_its_lock_although_the_command_goes_on() {
    let keep = json!({"artifacts": [{"name": "crash", "paths": ["crash"], "when": "OnFailure"}]});
    let case = Case::new(keep).await;
    fs::remove_file(case.path("results/lock")).unwrap();
    let script = format!("echo $$ > {0}/workspace/crash; exec sleep 1000", case.directory.path().display());
    let shim = shim(&case, &["sh", "-c", &script], &[]);
    let crash = case.path("workspace/crash");
    let pid =
        until("the command", LIMIT, async || fs::read_to_string(&crash).ok().filter(|pid| pid.ends_with('\n'))).await;
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    shim.signal(Signal::KILL);
    let report = case.run().await;
    let alive = rustix::process::test_kill_process(pid).is_ok();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert!(alive, "the command was to go on");
    assert_eq!((report, case.artifacts()), (CollectReport::default(), vec!["crash".to_owned()]));
}

#[tokio::test]
async fn every_report_of_the_shim_is_copied() {
    let written = r#"{"outcome":"Failed","reason":"ModelError","message":"no"}"#;
    for (format, script, expected) in [
        ("plain", "exit 3".to_owned(), Reason::CommandFailed),
        ("client", format!("echo '{written}' > \"$OUTCOME_FILE\"; exit 1"), Reason::ModelError),
        ("client", "exit 1".to_owned(), Reason::CommandFailed),
        ("xml", "exit 1".to_owned(), Reason::BadInvocation),
    ] {
        let case = Case::new(json!({})).await;
        // The agent may put anything in the place of the report.
        case.write("victim", "old");
        std::os::unix::fs::symlink(case.path("victim"), case.path("results/report.json")).unwrap();
        let shim = shim(&case, &["sh", "-c", &script], &[(env::SHIM_FORMAT, format)]);
        tokio::task::spawn_blocking(move || shim.finish(LIMIT)).await.unwrap();
        let report = RunReport::read(&fs::read_to_string(case.path("results/report.json")).unwrap()).unwrap();
        assert_eq!(report.reason, expected, "{format}: {script}");
        assert_eq!(fs::read_to_string(case.path("victim")).unwrap(), "old");
    }
}

fn shim(case: &Case, arguments: &[&str], extra: &[(&str, &str)]) -> Helper {
    let path = |name: &str| case.path(name).display().to_string();
    let pairs = [
        (env::SHIM_LOCK_FILE, path("results/lock")),
        (env::SHIM_REPORT_FILE, path("results/report.json")),
        (env::OUTPUTS_FILE, path("results/outputs")),
        (env::OUTCOME_FILE, path("shim-outcome")),
    ];
    let mut pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    pairs.extend(extra);
    Helper::start(command("shim", arguments, &pairs))
}

#[tokio::test]
async fn a_stop_before_the_agent_started_ends_the_housekeeper() {
    let case = Case::new(dist()).await;
    fs::remove_file(case.path("results/lock")).unwrap();
    let helper = case.start(&dist());
    wait_for_handler(&helper).await;
    helper.signal(Signal::TERM);
    let finished = tokio::task::spawn_blocking(move || helper.finish(LIMIT)).await.unwrap();
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let expected = CollectReport::failed(CollectFailure::CollectFailed, "the agent's container never started");
    assert_eq!(case.message(), expected);
}

#[tokio::test]
async fn a_stop_lets_the_agent_end_and_keeps_what_it_left() {
    let keep = json!({"artifacts": [{"name": "dist", "paths": ["dist"], "when": "Always"}]});
    let case = Case::new(keep.clone()).await;
    let lock = File::open(case.path("results/lock")).unwrap();
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let helper = case.start(&keep);
    wait_for_handler(&helper).await;
    helper.signal(Signal::TERM);
    // The run writes its last file after the stop.
    case.write("workspace/dist", "late");
    case.ended(Reason::Stopped);
    drop(lock);
    let finished = tokio::task::spawn_blocking(move || helper.finish(LIMIT)).await.unwrap();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert_eq!((case.message(), case.artifacts()), (CollectReport::default(), vec!["dist".to_owned()]));
    assert!(!finished.stdout.contains(TOKEN) && !finished.stderr.contains(TOKEN));
}

/// Waits until the helper handles SIGTERM: bit 14 of the mask of caught signals.
async fn wait_for_handler(helper: &Helper) {
    let status = format!("/proc/{}/status", helper.id());
    until("the handler of SIGTERM", LIMIT, async || {
        let status = fs::read_to_string(&status).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim().to_owned();
        (u64::from_str_radix(&mask, 16).ok()? & (1 << 14) != 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_reported() {
    let case = Case::new(dist()).await;
    let helper = case.start(&json!({"artifacts": "all"}));
    let finished = tokio::task::spawn_blocking(move || helper.finish(LIMIT)).await.unwrap();
    assert_eq!(finished.code, Some(1));
    let failure = case.message().failure.unwrap();
    assert!(failure.message.starts_with("KUBEOPENCODE_KEEP cannot be used"), "{}", failure.message);
    let keep = [(env::KEEP, dist().to_string())];
    assert!(Settings::from_env(&lookup(&keep)).is_err());
}
