//! What runs leave, from a real store: artefacts, their files, patches, outputs.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path};

use fileset::Patterns;
use jiff::{SignedDuration, Timestamp};
use reqwest::{Method, Response, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use server::Options;
use store::{Limits, NewArtifact, Owner, Published, Run, Store};
use tempfile::TempDir;

use crate::harness::{self, Harness};

const PAGE: &str = "<!doctype html><script>document.title = 'run'</script>";
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\nrest of an image";

/// A server with a store, and a Task with runs.
struct World {
    it: Harness,
    token: String,
    store: Store,
    task: Owner,
    dir: TempDir,
}

impl World {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::directory(&dir.path().join("store")).unwrap();
        let it = harness::start_with(Options { results: Some(store.clone()), ..harness::options() }).await;
        let token = it.owner().await;
        let task = json!({ "name": "fix", "description": "x", "agentRef": { "name": "dev" } });
        let (status, body) = it.post(&it.here("/tasks"), &token, &task).await;
        assert_eq!(status, 201, "{body}");
        it.set_status("tasks", "fix", json!({ "phase": "Completed", "runEpoch": 3 })).await;
        let task = Owner::new(&it.namespace, body["uid"].as_str().unwrap()).unwrap();
        Self { it, token, store, task, dir }
    }

    fn run(&self, epoch: i64) -> Run {
        Run { task: self.task.clone(), epoch }
    }

    /// Publishes these files; returns the bytes of the archive.
    async fn publish(&self, epoch: i64, name: &str, files: &[(&[u8], &[u8])]) -> Vec<u8> {
        let root = self.dir.path().join(format!("{name}-{epoch}"));
        fs::create_dir(&root).unwrap();
        for (path, content) in files {
            let path = root.join(Path::new(OsStr::from_bytes(path)));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        std::os::unix::fs::symlink("page.html", root.join("link")).unwrap();
        let limits = fileset::Limits { files: 10_000, bytes: 1 << 30 };
        let mut archive = Vec::new();
        let packed = fileset::pack(&root, &Patterns::parse(&["."]).unwrap(), &[], limits, &mut archive).unwrap();
        let digest = self.put(&archive).await;
        let artifact = NewArtifact {
            name: name.to_owned(),
            digest,
            bytes: archive.len() as u64,
            files: packed.manifest.files(),
            manifest: serde_json::to_vec(&packed.manifest).unwrap(),
            expires: None,
        };
        assert_eq!(self.store.publish(&self.run(epoch), artifact).await.unwrap(), Published::New);
        archive
    }

    async fn put(&self, bytes: &[u8]) -> store::Digest {
        let chunk = Ok(axum::body::Bytes::copy_from_slice(bytes));
        self.store.put_stream(futures::stream::iter([chunk]), u64::MAX).await.unwrap().digest
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = self.it.http.request(method, self.it.here(&format!("/tasks/fix{path}")));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.bearer_auth(&self.token).send().await.unwrap()
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        harness::answer(self.ask(Method::GET, path, &[]).await).await
    }

    /// The bytes of a file, and the headers of the response.
    async fn file(&self, path: &str, more: &str) -> (HeaderMap, Vec<u8>) {
        let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("path", path).finish();
        let response = self.ask(Method::GET, &format!("/artifacts/dist/content?{query}{more}"), &[]).await;
        assert_eq!(response.status(), 200, "{path}");
        (response.headers().clone(), response.bytes().await.unwrap().to_vec())
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

#[tokio::test]
async fn an_artefact_is_listed_downloaded_and_read_file_by_file() {
    let world = World::start().await;
    // Larger than a frame, so that a file in the middle needs a range of the archive.
    let large: Vec<u8> =
        (0..3_000_000_u32).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    world.publish(1, "dist", &[(b"old.txt", b"old")]).await;
    let files: [(&[u8], &[u8]); 5] = [
        (b"a.bin", &large),
        (b"empty", b""),
        (b"page.html", PAGE.as_bytes()),
        (b"sub/x.png", PIXEL),
        (b"z.txt", "\u{e4}\n".as_bytes()),
    ];
    let archive = world.publish(2, "dist", &files).await;
    let digest = store::Digest::of(&archive);

    let (status, list) = world.get("/artifacts").await;
    assert_eq!(status, 200, "{list}");
    let all = list["artifacts"].as_array().unwrap();
    let [only] = all.as_slice() else { panic!("{list}") };
    assert_eq!(
        (&only["name"], &only["epoch"], &only["files"], &only["digest"]),
        (&json!("dist"), &json!(2), &json!(5), &json!(digest.as_str()))
    );
    assert_eq!(world.get("/artifacts?epoch=1").await.1["artifacts"][0]["files"], 1);
    assert_eq!(world.get("/artifacts?epoch=3").await.1, json!({ "artifacts": [] }));
    assert_eq!(world.get("/artifacts?epoch=0").await.0, 400);

    let response = world.ask(Method::GET, "/artifacts/dist", &[]).await;
    assert_eq!(response.headers()["etag"], format!("\"{}\"", digest.as_str()));
    assert_eq!(response.headers()["content-disposition"], "attachment; filename=\"fix-dist.tar.zst\"");
    assert_eq!(response.headers()["content-type"], "application/zstd");
    assert!(response.bytes().await.unwrap() == archive);
    let head = world.ask(Method::HEAD, "/artifacts/dist", &[]).await;
    assert_eq!((head.status().as_u16(), text(head.headers(), "content-length")), (200, &*archive.len().to_string()));
    assert!(head.bytes().await.unwrap().is_empty());

    let manifest = world.get("/artifacts/dist/manifest").await.1;
    let manifest: fileset::Manifest = serde_json::from_value(manifest).unwrap();
    assert_eq!(manifest.bytes, archive.len() as u64);
    let (_, page) = world.get("/artifacts/dist/files?limit=2").await;
    assert_eq!((&page["total"], &page["next"]), (&json!(6), &json!("empty")));
    assert_eq!((&page["files"][0]["name"], &page["files"][0]["size"]), (&json!("a.bin"), &json!(large.len())));
    let (_, page) = world.get("/artifacts/dist/files?after=empty&limit=1000").await;
    let names: Vec<_> = page["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["link", "page.html", "sub/x.png", "z.txt"]);
    assert_eq!((&page["files"][0]["kind"], &page["files"][0]["target"]), (&json!("link"), &json!("page.html")));
    assert_eq!(world.get("/artifacts/dist/files?prefix=sub/").await.1["total"], 1);
    assert_eq!(world.get("/artifacts/dist/files?limit=1001").await.0, 400);

    for (path, content) in files {
        let path = str::from_utf8(path).unwrap();
        let (_, read) = world.file(path, "").await;
        assert!(read == content, "{path}");
    }
    assert_eq!(world.file("old.txt", "&epoch=1").await.1, b"old");
    let (status, body) = world.get("/artifacts/dist/content?path=link").await;
    assert_eq!((status.as_u16(), &body["message"]), (404, &json!("'link' is a symbolic link to 'page.html'")));
    for gone in ["none", "../z.txt", "/etc/passwd", "sub", "", "/hex/zz"] {
        let (status, _) = world.get(&format!("/artifacts/dist/content?path={gone}")).await;
        assert!(status == 404 || status == 400, "{gone}: {status}");
    }
    let (status, body) = world.get("/artifacts/other").await;
    assert_eq!((status.as_u16(), &body["message"]), (404, &json!("this Task has no artifact 'other'")));
}

#[tokio::test]
async fn ranges_are_served_and_what_is_known_is_not_sent_again() {
    let world = World::start().await;
    let lines = (0..100_000).map(|number: i32| number.to_string()).collect::<Vec<_>>().join("\n");
    let archive = world.publish(2, "dist", &[(b"log.txt", lines.as_bytes())]).await;
    for (path, whole) in [("/artifacts/dist", &archive[..]), ("/artifacts/dist/content?path=log.txt", lines.as_bytes())]
    {
        let length = whole.len();
        for (range, expected) in [("bytes=0-0", 0..1), ("bytes=7-99", 7..100), ("bytes=-5", length - 5..length)] {
            let response = world.ask(Method::GET, path, &[("range", range)]).await;
            assert_eq!(response.status(), 206, "{path} {range}");
            let sent = format!("bytes {}-{}/{length}", expected.start, expected.end - 1);
            assert_eq!(response.headers()["content-range"], sent);
            assert!(response.bytes().await.unwrap() == whole[expected], "{path} {range}");
        }
        let outside = world.ask(Method::GET, path, &[("range", &format!("bytes={length}-"))]).await;
        assert_eq!(
            (outside.status().as_u16(), text(outside.headers(), "content-range")),
            (416, &*format!("bytes */{length}"))
        );
        let whole_again = world.ask(Method::GET, path, &[("range", "bytes=0-1,5-6")]).await;
        let tag = text(whole_again.headers(), "etag").to_owned();
        assert_eq!((whole_again.status().as_u16(), whole_again.bytes().await.unwrap().len()), (200, length));
        let known = world.ask(Method::GET, path, &[("if-none-match", &tag)]).await;
        assert_eq!(known.status(), 304);
        let changed = world.ask(Method::GET, path, &[("if-range", "\"old\""), ("range", "bytes=0-1")]).await;
        assert_eq!(changed.status(), 200);
    }
}

#[tokio::test]
async fn no_file_of_an_agent_runs_in_a_browser_and_no_name_leaves_its_header() {
    let world = World::start().await;
    let files: [(&[u8], &[u8]); 6] = [
        (b"page.html", PAGE.as_bytes()),
        (b"image.svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>"),
        (b"x.png", PIXEL),
        (b"script.png", b"<script>alert(1)</script>"),
        (b"program", b"\x7fELF\0\0"),
        (b"a\"\r\nset-cookie: x\n\xff", b"text"),
    ];
    world.publish(1, "dist", &files).await;
    for (path, kind, shown) in [
        ("page.html", "text/plain; charset=utf-8", true),
        ("image.svg", "text/plain; charset=utf-8", true),
        ("x.png", "image/png", true),
        ("script.png", "text/plain; charset=utf-8", true),
        ("program", "application/octet-stream", false),
    ] {
        let (headers, _) = world.file(path, "").await;
        assert_eq!(text(&headers, "content-type"), kind, "{path}");
        assert_eq!(text(&headers, "x-content-type-options"), "nosniff");
        assert_eq!(text(&headers, "content-security-policy"), "sandbox; default-src 'none'");
        let disposition = text(&headers, "content-disposition");
        assert_eq!(disposition.starts_with("inline"), shown, "{path}: {disposition}");
    }
    let (headers, _) = world.file("x.png", "&download=true").await;
    assert!(text(&headers, "content-disposition").starts_with("attachment"));
    let (_, page) = world.get("/artifacts/dist/files").await;
    let hostile = page["files"][0]["path"].as_str().unwrap();
    assert!(hostile.starts_with("/hex/") && page["files"][0]["name"].as_str().unwrap().contains('\u{fffd}'), "{page}");
    let (headers, read) = world.file(hostile, "").await;
    assert_eq!((read.as_slice(), headers.get("set-cookie")), (&b"text"[..], None));
}

#[tokio::test]
async fn only_those_who_may_read_the_log_may_read_what_a_run_left() {
    let world = World::start().await;
    world.publish(1, "dist", &[(b"a", b"a")]).await;
    let it = &world.it;
    let tasks = json!({ "apiGroups": ["kubeopencode.io"], "resources": ["tasks"], "verbs": ["get", "list"] });
    let logs = json!({ "apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"] });
    let without = it.user("without", json!([tasks.clone()])).await;
    let with = it.user("with", json!([tasks, logs.clone()])).await;
    let only_logs = it.user("only-logs", json!([logs])).await;
    it.until("rights are seen", async || it.get(&it.here("/tasks/fix/artifacts"), &with).await.0 == 200).await;
    it.until("rights are seen", async || it.get(&it.here("/tasks/fix"), &without).await.0 == 200).await;
    let other = harness::start().await;
    for path in [
        "/artifacts",
        "/artifacts/dist",
        "/artifacts/dist/manifest",
        "/artifacts/dist/files",
        "/artifacts/dist/content?path=a",
        "/changes/patch",
        "/outputs",
    ] {
        let url = it.here(&format!("/tasks/fix{path}"));
        for token in [&without, &only_logs] {
            assert_eq!(it.get(&url, token).await.0, 403, "{path}");
        }
        assert_ne!(it.get(&url, &with).await.0, 403, "{path}");
        assert_eq!(it.http.get(&url).send().await.unwrap().status(), 401, "{path}");
        let elsewhere = it.path(&format!("/namespaces/{}/tasks/fix{path}", other.namespace));
        assert_eq!(it.get(&elsewhere, &with).await.0, 403, "{path}");
    }
}

#[tokio::test]
async fn the_patch_and_the_outputs_are_those_of_the_newest_run_that_has_them() {
    let world = World::start().await;
    let (status, body) = world.get("/changes/patch").await;
    assert_eq!((status.as_u16(), &body["message"]), (404, &json!("no patch is stored for this run")));
    assert_eq!(world.get("/outputs").await, (StatusCode::OK, json!({ "outputs": {} })));
    for epoch in [1, 2] {
        let patch = format!("diff --git a/x b/x\n+{epoch}\n");
        let digest = world.put(patch.as_bytes()).await;
        let run = world.run(epoch);
        assert_eq!(world.store.publish_patch(&run, digest, patch.len() as u64).await.unwrap(), Published::New);
        let outputs = json!({ "URL": format!("https://{epoch}.example"), "empty": "" });
        world.store.put_outputs(&run, outputs.to_string().into_bytes()).await.unwrap();
    }
    let response = world.ask(Method::GET, "/changes/patch", &[]).await;
    assert_eq!(response.headers()["content-type"], "text/x-diff; charset=utf-8");
    assert_eq!(response.headers()["content-disposition"], "attachment; filename=\"fix-2.patch\"");
    assert_eq!(response.text().await.unwrap(), "diff --git a/x b/x\n+2\n");
    let first = world.ask(Method::GET, "/changes/patch?epoch=1", &[("range", "bytes=-3")]).await;
    assert_eq!(first.text().await.unwrap(), "+1\n");
    assert_eq!(world.get("/changes/patch?epoch=3").await.0, 404);
    assert_eq!(
        world.get("/outputs").await.1,
        json!({ "epoch": 2, "outputs": { "URL": "https://2.example", "empty": "" } })
    );
    assert_eq!(world.get("/outputs?epoch=1").await.1["outputs"]["URL"], "https://1.example");
    assert_eq!(world.get("/outputs?epoch=3").await.1, json!({ "outputs": {} }));
    // The patch is kept with artefacts, and is none.
    assert_eq!(world.get("/artifacts").await.1, json!({ "artifacts": [] }));
    assert_eq!(world.get("/artifacts/.patch").await.0, 404);
}

#[tokio::test]
async fn what_expired_is_listed_and_says_why_it_cannot_be_read() {
    let world = World::start().await;
    world.publish(1, "dist", &[(b"a", b"first")]).await;
    world.publish(2, "dist", &[(b"a", b"second")]).await;
    world.publish(2, "report", &[(b"a", b"a")]).await;
    let old = Limits { age: Some(SignedDuration::ZERO), ..Limits::default() };
    let later = Timestamp::now() + SignedDuration::from_secs(1);
    world.store.limit_artifacts(&world.it.namespace, old, later).await.unwrap();
    let (_, list) = world.get("/artifacts").await;
    let expired: Vec<_> =
        list["artifacts"].as_array().unwrap().iter().map(|artifact| &artifact["expired"]["cause"]).collect();
    assert_eq!(expired, [&json!("Age"), &json!("Age")], "{list}");
    for path in
        ["/artifacts/dist", "/artifacts/dist/files", "/artifacts/dist/content?path=a", "/artifacts/dist/manifest"]
    {
        let (status, body) = world.get(path).await;
        let message = body["message"].as_str().unwrap();
        assert_eq!(status, 404, "{path}");
        assert!(
            message.starts_with("artifact 'dist' of run 2 expired at ") && message.contains("maximum age"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_server_without_a_store_says_so() {
    let it = harness::start().await;
    let token = it.owner().await;
    let task = json!({ "name": "fix", "description": "x", "agentRef": { "name": "dev" } });
    it.post(&it.here("/tasks"), &token, &task).await;
    for path in ["/artifacts", "/changes/patch", "/outputs"] {
        let (status, body) = it.get(&it.here(&format!("/tasks/fix{path}")), &token).await;
        let expected = "this server has no store, so it keeps no artifacts, outputs and patches of runs";
        assert_eq!((status.as_u16(), body["message"].as_str()), (404, Some(expected)), "{path}");
    }
}
