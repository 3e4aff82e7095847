//! Every request of the protocol, and what becomes of it.

use domain::contract::{
    collect::{Fetch, Keep, MOST_CONTENT_BYTES, MOST_OUTPUT_BYTES, MOST_PATCH_BYTES},
    depot::{Found, Publication, RefusalReason, Stored},
};
use futures::future::join_all;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use store::Archive as _;

use crate::world::{NAMESPACE, RunOf, Spec, World, keeps, publication, read, refusal, sha256, takes, unique_bytes};

async fn found(answer: Response) -> Found {
    assert_eq!(answer.status(), StatusCode::OK);
    answer.json().await.unwrap()
}

async fn bytes(answer: Response) -> Vec<u8> {
    assert!(answer.status().is_success(), "{}", answer.status());
    answer.bytes().await.unwrap().to_vec()
}

#[tokio::test]
async fn an_artefact_of_one_task_is_the_input_of_another() {
    let world = World::new().await;
    let content = unique_bytes(9 << 20);
    let mut published = publication(&content);
    // Frames are 2 MiB long at most.
    published.manifest["frames"] = (0..5).map(|n| json!({"at": n << 21, "offset": n << 21})).collect();
    published.manifest["entries"][0]["kind"]["file"]["bytes"] = json!(9 << 20);

    let build = world.run("build", &keeps(&["dist", "log"]), &Fetch::default()).await;
    let deploy = world.run("deploy", &Keep::default(), &takes(&[("build", "dist"), ("build", "none")])).await;
    assert_eq!(world.upload(&build, &content).await, Stored { digest: sha256(&content), bytes: 9 << 20 });
    let post = async || world.post("/v1/artifacts/dist", &build, &published).await.status();
    assert_eq!((post().await, post().await), (StatusCode::CREATED, StatusCode::OK));

    // Not before the run was successful.
    let refused = refusal(world.get("/v1/inputs/build/dist", &deploy).await).await;
    assert_eq!(refused.reason, RefusalReason::NotFound);
    assert!(refused.message.contains("no run of the Task was successful"), "{refused:?}");
    world.record(&build, json!({"phase": "Completed"})).await;

    let input = found(world.get("/v1/inputs/build/dist", &deploy).await).await;
    let Publication { digest, bytes: length, manifest, .. } = published;
    assert_eq!(input, Found { key: None, digest: digest.clone(), bytes: length, manifest });
    let answer = world.get("/v1/inputs/build/dist/content", &deploy).await;
    assert_eq!(answer.headers()["etag"], format!("\"{digest}\""));
    assert_eq!(answer.content_length(), Some(length));
    assert_eq!(sha256(&bytes(answer).await), digest);
    let refused = refusal(world.get("/v1/inputs/build/none", &deploy).await).await;
    assert!(refused.message.contains("'none'") && refused.message.contains("'build'"), "{refused:?}");
}

#[tokio::test]
async fn names_of_any_bytes_are_returned_as_they_came() {
    let world = World::new().await;
    let build = world.run("build", &keeps(&["dist"]), &Fetch::default()).await;
    let deploy = world.run("deploy", &Keep::default(), &takes(&[("build", "dist")])).await;
    world.upload(&build, b"bytes").await;
    for (number, name) in [&b"two\nlines"[..], b"not \xff utf-8", b"\x1b[31mred"].into_iter().enumerate() {
        let (name, number) = (fileset::Name::new(name).unwrap(), i64::try_from(number).unwrap());
        let mut published = publication(b"bytes");
        published.manifest["entries"][0]["path"] = serde_json::to_value(&name).unwrap();
        let build = if number == 0 {
            build.clone()
        } else {
            world.again(&RunOf { epoch: number, ..build.clone() }, &keeps(&["dist"]), &Fetch::default()).await
        };
        assert_eq!(world.post("/v1/artifacts/dist", &build, &published).await.status(), StatusCode::CREATED);
        world.record(&build, json!({"phase": "Completed"})).await;
        let input = found(world.get("/v1/inputs/build/dist", &deploy).await).await;
        assert_eq!(input.manifest, published.manifest, "{name}");
    }
}

#[tokio::test]
async fn the_digest_of_another_namespaces_bytes_gives_no_access_to_them() {
    let world = World::new().await;
    let content = unique_bytes(5000);
    let build = world.run("build", &keeps(&["dist"]), &Fetch::default()).await;
    assert_eq!(world.publish(&build, "dist", &content).await, StatusCode::CREATED);
    world.namespace("strangers").await;
    let keep = keeps(&["stolen"]);
    let thief = world.run_of(Spec { namespace: "strangers", task: "thief", keep: &keep, ..Spec::default() }).await;
    let refused = refusal(world.post("/v1/artifacts/stolen", &thief, &publication(&content)).await).await;
    assert!(refused.message.contains("send them first"), "{refused:?}");
    assert_eq!(world.publish(&thief, "stolen", &content).await, StatusCode::CREATED);
}

#[tokio::test]
async fn a_part_of_an_artefact_can_be_fetched() {
    let world = World::new().await;
    let content = unique_bytes(5000);
    let build = world.run("build", &keeps(&["dist"]), &Fetch::default()).await;
    let deploy = world.run("deploy", &Keep::default(), &takes(&[("build", "dist")])).await;
    world.leave(&build, "dist", &content).await;
    let get = async |range: &str| {
        let request = world.request(Method::GET, "/v1/inputs/build/dist/content", &deploy.token);
        request.header("range", range).send().await.unwrap()
    };
    let part = get("bytes=1000-1999").await;
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.headers()["content-range"], "bytes 1000-1999/5000");
    assert_eq!(bytes(part).await, content[1000..2000]);
    assert_eq!(bytes(get("bytes=-10").await).await, content[4990..]);
    let behind = get("bytes=5000-").await;
    assert_eq!(behind.status(), StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(behind.headers()["content-range"], "bytes */5000");
    refusal(behind).await;
}

#[tokio::test]
async fn an_input_is_that_of_the_newest_successful_run() {
    let world = World::new().await;
    let keep: Keep = read(json!({"artifacts": [
        {"name": "dist", "paths": ["**"], "when": "Always"},
        {"name": "brief", "paths": ["**"], "expireAfter": "1ns"},
    ]}));
    let deploy = world.run("deploy", &Keep::default(), &takes(&[("build", "dist"), ("build", "brief")])).await;
    let refused = refusal(world.get("/v1/inputs/build/dist", &deploy).await).await;
    assert!(refused.message.contains("'build' does not exist"), "{refused:?}");

    let first = world.run("build", &keep, &Fetch::default()).await;
    assert_eq!(world.publish(&first, "brief", b"brief").await, StatusCode::CREATED);
    world.leave(&first, "dist", b"one").await;
    let content =
        async |digest: &str| world.get(&format!("/v1/inputs/build/dist/content?digest={digest}"), &deploy).await;
    let second = world.again(&first, &keep, &Fetch::default()).await;
    assert_eq!(world.publish(&second, "dist", b"two").await, StatusCode::CREATED);
    world.record(&second, json!({"phase": "Failed"})).await;
    let input = async || found(world.get("/v1/inputs/build/dist", &deploy).await).await.digest;
    assert_eq!(input().await, sha256(b"one"));
    // One that its user stopped is no success either.
    let third = world.again(&second, &keep, &Fetch::default()).await;
    assert_eq!(world.publish(&third, "dist", b"three").await, StatusCode::CREATED);
    world.record(&third, json!({"phase": "Completed", "reason": "UserStopped"})).await;
    assert_eq!(input().await, sha256(b"one"));
    let fourth = world.again(&third, &keep, &Fetch::default()).await;
    world.leave(&fourth, "dist", b"four").await;
    assert_eq!(input().await, sha256(b"four"));
    // A reader that found the first one before reads it to its end.
    assert_eq!(bytes(content(&sha256(b"one")).await).await, b"one");
    assert_eq!(bytes(content(&sha256(b"four")).await).await, b"four");
    for none in [sha256(b"two"), sha256(b"three"), "x".to_owned()] {
        let refused = refusal(content(&none).await).await;
        assert!(refused.message.starts_with("no successful run of Task 'build' left these bytes"), "{refused:?}");
    }

    // Only the last successful run counts, which left no brief.
    let refused = refusal(world.get("/v1/inputs/build/brief", &deploy).await).await;
    assert_eq!(refused.reason, RefusalReason::NotFound);
    assert!(refused.message.ends_with("its last successful run, 4, left none of this name"), "{refused:?}");
}

#[tokio::test]
async fn an_input_that_expired_is_said_to_be() {
    let world = World::new().await;
    let keep: Keep = read(json!({"artifacts": [{"name": "brief", "paths": ["**"], "expireAfter": "1ns"}]}));
    let deploy = world.run("deploy", &Keep::default(), &takes(&[("build", "brief")])).await;
    let build = world.run("build", &keep, &Fetch::default()).await;
    world.leave(&build, "brief", b"brief").await;
    let refused = refusal(world.get("/v1/inputs/build/brief", &deploy).await).await;
    assert_eq!(refused.reason, RefusalReason::NotFound);
    let expired = refused.message.starts_with("the artifact 'brief' of Task 'build', run 1, expired at 2");
    assert!(expired && refused.message.ends_with("it was to be kept until then"), "{refused:?}");
}

#[tokio::test]
async fn the_inputs_of_another_namespace_are_out_of_reach() {
    let world = World::new().await;
    world.namespace("others").await;
    let build = world.run("build", &keeps(&["dist"]), &Fetch::default()).await;
    world.leave(&build, "dist", b"ours").await;
    let fetch = takes(&[("build", "dist")]);
    let deploy = world.run_of(Spec { namespace: "others", task: "deploy", fetch: &fetch, ..Spec::default() }).await;
    let refused = refusal(world.get("/v1/inputs/build/dist", &deploy).await).await;
    assert_eq!(refused.reason, RefusalReason::NotFound);
}

#[tokio::test]
async fn an_artefact_is_published_once() {
    let world = World::new().await;
    let keep = keeps(&["dist"]);
    let run = world.run("fix", &keep, &Fetch::default()).await;
    // Two housekeepers of one epoch, of which each believes that it is the only one.
    let contents: Vec<Vec<u8>> = (0..8).map(|_| unique_bytes(1000)).collect();
    let published = join_all(contents.iter().map(|content| world.publish(&run, "dist", content))).await;
    let winners = published.iter().filter(|status| **status == StatusCode::CREATED).count();
    assert_eq!(winners, 1, "{published:?}");
    assert!(published.iter().all(|status| [StatusCode::CREATED, StatusCode::CONFLICT].contains(status)));
    let winner = published.iter().position(|status| *status == StatusCode::CREATED).unwrap();
    let kept = world.store.artifact(&run.key(), "dist").await.unwrap().unwrap();
    assert_eq!(kept.digest.as_str(), sha256(&contents[winner]));
    // The same again is fine: the answer to the first request may have been lost.
    assert_eq!(world.publish(&run, "dist", &contents[winner]).await, StatusCode::OK);
    let answer = world.post("/v1/artifacts/dist", &run, &publication(&contents[(winner + 1) % 8])).await;
    let refused = refusal(answer).await;
    assert_eq!(refused.message, "the artifact 'dist' of run 1 of Task 'fix' is stored already");
}

#[tokio::test]
async fn nothing_is_published_after_the_end_of_a_run() {
    let world = World::new().await;
    let keep: Keep =
        read(json!({"artifacts": [{"name": "dist", "paths": ["**"]}], "outputs": ["url"], "changes": true}));
    let run = world.run("fix", &keep, &Fetch::default()).await;
    let stored = world.upload(&run, b"bytes").await;
    // The record comes before the status: at this moment only the store knows.
    world.record(&run, json!({"phase": "Completed"})).await;
    let put_outputs = async |run: &RunOf| {
        world.request(Method::PUT, "/v1/outputs", &run.token).json(&json!({"url": "x"})).send().await.unwrap()
    };
    for answer in [
        world.post("/v1/artifacts/dist", &run, &publication(b"bytes")).await,
        world.post("/v1/changes", &run, &stored).await,
        put_outputs(&run).await,
    ] {
        let refused = refusal(answer).await;
        assert_eq!((refused.reason, &*refused.message), (RefusalReason::Conflict, "run 1 of Task 'fix' is over"));
    }
    assert_eq!(world.store.results(&run.key()).await.unwrap(), store::RunResults::default());
}

#[tokio::test]
async fn a_publication_that_is_not_what_it_says_is_refused() {
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    world.upload(&run, b"bytes").await;
    let good = publication(b"bytes");
    let mut escaping = good.clone();
    escaping.manifest["entries"][0]["path"] = json!("../../etc/passwd");
    let wrong: [(&str, Value); 8] = [
        ("the digest of other bytes", json!(publication(b"other"))),
        ("a digest in capitals", json!(Publication { digest: good.digest.to_uppercase(), ..good.clone() })),
        ("no digest", json!(Publication { digest: String::new(), ..good.clone() })),
        ("another length", json!(Publication { bytes: 6, ..good.clone() })),
        ("another number of files", json!(Publication { files: 2, ..good.clone() })),
        ("a manifest that leads elsewhere", json!(escaping)),
        ("no manifest", json!({"digest": good.digest, "bytes": 5, "files": 1})),
        ("something else", json!("text")),
    ];
    for (what, publication) in wrong {
        let answer = world.post("/v1/artifacts/dist", &run, &publication).await;
        assert_eq!(refusal(answer).await.reason, RefusalReason::Malformed, "{what}");
    }
    // The manifest and the sender agree, the stored bytes do not.
    let mut longer = Publication { bytes: 6, ..good.clone() };
    longer.manifest["bytes"] = json!(6);
    let refused = refusal(world.post("/v1/artifacts/dist", &run, &longer).await).await;
    assert!(refused.message.contains("no bytes of this digest and length"), "{refused:?}");
    assert_eq!(world.store.artifacts(&run.key().task).await.unwrap(), []);
    assert_eq!(world.post("/v1/artifacts/dist", &run, &good).await.status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_manifest_that_claims_more_than_a_run_may_keep_is_refused() {
    const FRAME: u64 = fileset::FRAME_BYTES as u64;
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    let check = async |content: u64, expected: RefusalReason| {
        // As a bomb: each byte of the archive is a whole frame.
        let frames = (content.next_multiple_of(512) + 512 + 1024).div_ceil(FRAME);
        let list: Vec<Value> = (0..frames).map(|number| json!({"at": number * FRAME, "offset": number})).collect();
        let mut claim = Publication { bytes: frames, ..publication(b"never sent") };
        (claim.manifest["bytes"], claim.manifest["frames"]) = (json!(frames), json!(list));
        claim.manifest["entries"][0]["kind"]["file"]["bytes"] = json!(content);
        let refused = refusal(world.post("/v1/artifacts/dist", &run, &claim).await).await;
        assert_eq!(refused.reason, expected, "{refused:?}");
    };
    // There are no such bytes, and that many would be fine.
    check(MOST_CONTENT_BYTES, RefusalReason::Malformed).await;
    check(MOST_CONTENT_BYTES + 1, RefusalReason::TooLarge).await;
}

#[tokio::test]
async fn the_changes_of_a_run_are_a_patch() {
    let world = World::new().await;
    let keep: Keep = read(json!({"changes": true}));
    let run = world.run("fix", &keep, &Fetch::default()).await;
    let stored = world.upload(&run, b"--- a\n+++ b\n").await;
    let post = async |stored: &Stored| world.post("/v1/changes", &run, stored).await;
    let large = Stored { bytes: MOST_PATCH_BYTES + 1, ..stored.clone() };
    assert_eq!(refusal(post(&large).await).await.reason, RefusalReason::TooLarge);
    let unknown = Stored { digest: sha256(b"other"), ..stored.clone() };
    assert_eq!(refusal(post(&unknown).await).await.reason, RefusalReason::Malformed);
    assert_eq!(post(&stored).await.status(), StatusCode::CREATED);
    assert_eq!(post(&stored).await.status(), StatusCode::OK);
    let other = world.upload(&run, b"other").await;
    assert_eq!(refusal(post(&other).await).await.reason, RefusalReason::Conflict);
    let patch = world.store.patch(&run.key()).await.unwrap().unwrap();
    assert_eq!((patch.digest.as_str(), patch.bytes), (&*stored.digest, stored.bytes));
}

#[tokio::test]
async fn outputs_are_those_that_were_declared() {
    let world = World::new().await;
    let keep: Keep = read(json!({"outputs": ["url", "cost"]}));
    let run = world.run("fix", &keep, &Fetch::default()).await;
    let put = async |outputs: Value| {
        world.request(Method::PUT, "/v1/outputs", &run.token).json(&outputs).send().await.unwrap()
    };
    let refused = refusal(put(json!({"url": "x", "other": "y"})).await).await;
    assert_eq!(refused.reason, RefusalReason::NotAllowed);
    assert!(refused.message.contains("'other'"), "{refused:?}");
    for outputs in [json!({"url": 1}), json!(["url"]), json!({"url": {"a": "b"}}), json!(null)] {
        assert_eq!(refusal(put(outputs).await).await.reason, RefusalReason::Malformed);
    }
    let large = put(json!({"url": "x".repeat(MOST_OUTPUT_BYTES)})).await;
    assert_eq!(refusal(large).await.reason, RefusalReason::TooLarge);
    assert_eq!(world.store.outputs(&run.key()).await.unwrap(), None);

    assert_eq!(put(json!({"url": "x\n\"y\"", "cost": "1"})).await.status(), StatusCode::CREATED);
    assert_eq!(put(json!({"cost": "1", "url": "x\n\"y\""})).await.status(), StatusCode::OK);
    assert_eq!(refusal(put(json!({"url": "z"})).await).await.reason, RefusalReason::Conflict);
    let kept = world.store.outputs(&run.key()).await.unwrap().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&kept).unwrap(), json!({"url": "x\n\"y\"", "cost": "1"}));
}

/// A run on a target that saves and restores the cache `deps`.
async fn caching(world: &World, namespace: &str, task: &str, target: (&str, &str)) -> RunOf {
    let caches = json!({"caches": [{"name": "deps", "key": "k", "paths": ["**"]}]});
    let (keep, fetch) = (read(caches.clone()), read(caches));
    world.run_of(Spec { namespace, task, target, keep: &keep, fetch: &fetch }).await
}

#[tokio::test]
async fn a_cache_is_found_by_its_key_or_a_prefix() {
    let world = World::new().await;
    let run = caching(&world, NAMESPACE, "fix", ("templateRef", "go")).await;
    let save = async |key: &str, content: &[u8]| {
        world.upload(&run, content).await;
        world.post(&format!("/v1/caches/deps?key={key}"), &run, &publication(content)).await.status()
    };
    assert_eq!(save("go-1", b"one").await, StatusCode::CREATED);
    assert_eq!(save("go-1", b"one").await, StatusCode::OK);
    // The first entry of a key stays.
    assert_eq!(save("go-1", b"another").await, StatusCode::OK);
    assert_eq!(save("go-2%26%25", b"two").await, StatusCode::CREATED);

    let find = async |query: &str| world.get(&format!("/v1/caches/deps?{query}"), &run).await;
    let key_of = async |query: &str| found(find(query).await).await.key.unwrap();
    let exact = found(find("key=go-1&prefix=go").await).await;
    let Publication { digest, bytes: length, manifest, .. } = publication(b"one");
    assert_eq!(exact, Found { key: Some("go-1".into()), digest, bytes: length, manifest });
    assert_eq!(key_of("key=go-3&prefix=none&prefix=go-").await, "go-2&%");
    assert_eq!(key_of("key=go-3&prefix=go-1").await, "go-1");
    assert_eq!(refusal(find("key=go-3").await).await.reason, RefusalReason::NotFound);
    assert_eq!(refusal(find("key=go-3&prefix=%25").await).await.reason, RefusalReason::NotFound);
    assert_eq!(refusal(find("prefix=go").await).await.reason, RefusalReason::Malformed);

    let content = async |query: &str| world.get(&format!("/v1/caches/deps/content?{query}"), &run).await;
    assert_eq!(bytes(content("key=go-1").await).await, b"one");
    assert_eq!(bytes(content("key=go-2%26%25").await).await, b"two");
    assert_eq!(refusal(content("key=go-").await).await.reason, RefusalReason::NotFound);
    let unknown = world.post("/v1/caches/deps?key=go-9", &run, &publication(b"never sent")).await;
    assert_eq!(refusal(unknown).await.reason, RefusalReason::Malformed);
}

#[tokio::test]
async fn caches_are_shared_by_the_runs_of_one_template_or_agent_and_by_no_others() {
    let world = World::new().await;
    world.namespace("others").await;
    let writer = caching(&world, NAMESPACE, "writer", ("templateRef", "go")).await;
    world.upload(&writer, b"files").await;
    assert_eq!(
        world.post("/v1/caches/deps?key=k", &writer, &publication(b"files")).await.status(),
        StatusCode::CREATED
    );
    let check = async |namespace: &str, task: &str, target: (&str, &str), expected: StatusCode| {
        let reader = caching(&world, namespace, task, target).await;
        let found = world.get("/v1/caches/deps?key=other&prefix=k", &reader).await.status();
        let content = world.get("/v1/caches/deps/content?key=k", &reader).await.status();
        assert_eq!((found, content), (expected, expected), "{namespace} {target:?}");
    };
    check(NAMESPACE, "same", ("templateRef", "go"), StatusCode::OK).await;
    check(NAMESPACE, "template", ("templateRef", "rust"), StatusCode::NOT_FOUND).await;
    check(NAMESPACE, "agent", ("agentRef", "go"), StatusCode::NOT_FOUND).await;
    check("others", "namespace", ("templateRef", "go"), StatusCode::NOT_FOUND).await;
}

#[tokio::test]
async fn a_damaged_cache_is_saved_anew() {
    let world = World::new().await;
    let run = caching(&world, NAMESPACE, "fix", ("templateRef", "go")).await;
    let save = async |content: &[u8]| {
        world.upload(&run, content).await;
        world.post("/v1/caches/deps?key=k", &run, &publication(content)).await.status()
    };
    let content = async || world.get("/v1/caches/deps/content?key=k", &run).await;
    let blob_of = |content: &[u8]| {
        let name = sha256(content);
        let folder = world.dir.path().join("blobs/sha256").join(&name[..2]);
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        files.into_iter().find(|file| file.file_name().unwrap().to_str().unwrap().starts_with(&name)).unwrap()
    };
    assert_eq!(save(b"files").await, StatusCode::CREATED);
    std::fs::write(blob_of(b"files"), b"FILES").unwrap();
    // The body ends with an error, so the client does not take it.
    assert!(content().await.bytes().await.is_err());
    assert_eq!(refusal(content().await).await.reason, RefusalReason::NotFound);
    assert_eq!(save(b"files").await, StatusCode::CREATED);
    assert_eq!(bytes(content().await).await, b"files");
}
