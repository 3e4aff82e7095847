//! Tasks from creation to deletion.

use reqwest::Method;
use serde_json::json;

use crate::harness;

#[tokio::test]
async fn a_task_is_created_listed_stopped_rerun_and_deleted() {
    let it = harness::start().await;
    let token = it.owner().await;
    let short = json!({
        "name": "fix", "description": "fix the bug", "agentRef": { "name": "dev" }, "timeout": "30m", "priority": 5,
        "labels": { "team": "a" },
        "contexts": [
            { "type": "Text", "text": "hello" },
            { "type": "ConfigMap", "configMap": { "name": "notes" } },
            { "type": "Git", "mountPath": "repo", "git": { "repository": "https://example.com/a.git" } },
            { "type": "Runtime", "runtime": {} },
            { "type": "URL", "mountPath": "page.html", "url": { "source": "https://example.com/" } },
        ],
    });
    let (status, created) = it.post(&it.here("/tasks"), &token, &short).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!(created["phase"], "Pending");
    // A label with the target at creation saves the controller a write.
    assert_eq!(created["labels"], json!({ "kubeopencode.io/agent": "dev", "team": "a" }));
    assert_eq!((created["timeout"].as_str(), created["priority"].as_i64()), (Some("30m0s"), Some(5)));
    assert_eq!(created["contexts"].as_array().unwrap().len(), 5);
    assert_eq!(created["contexts"][4]["type"], "URL");

    let (status, again) = it.post(&it.here("/tasks"), &token, &short).await;
    assert_eq!((status.as_u16(), again["error"].as_str()), (409, Some("AlreadyExists")));

    it.until_listed(&token, "/tasks", 1).await;
    let (_, list) =
        it.get(&it.here("/tasks?labelSelector=team%3Da&agent=dev&phase=Pending,Running&name=FI"), &token).await;
    assert_eq!(list["tasks"][0]["name"], "fix");
    assert_eq!(list["pagination"], json!({ "limit": 20, "offset": 0, "totalCount": 1, "hasMore": false }));
    assert!(list["tasks"][0].get("contexts").is_none());
    for nothing in ["labelSelector=team%3Db", "agent=other", "phase=Failed", "name=zzz", "template=x", "reason=x"] {
        assert_eq!(it.get(&it.here(&format!("/tasks?{nothing}")), &token).await.1["total"], 0, "{nothing}");
    }

    assert_eq!(it.post(&it.here("/tasks/fix/rerun"), &token, &json!({})).await.0, 409);
    let (status, stopped) = it.post(&it.here("/tasks/fix/stop"), &token, &json!({})).await;
    assert_eq!((status.as_u16(), stopped["stopRequested"].as_bool()), (200, Some(true)));
    it.set_status("tasks", "fix", json!({ "phase": "Completed", "reason": "UserStopped", "runEpoch": 1 })).await;
    assert_eq!(it.post(&it.here("/tasks/fix/stop"), &token, &json!({})).await.0, 409);
    let (status, rerun) = it.post(&it.here("/tasks/fix/rerun"), &token, &json!({})).await;
    assert_eq!(status, 202);
    assert!(rerun["annotations"]["kubeopencode.io/rerun"].as_str().is_some_and(|nonce| !nonce.is_empty()));
    assert_eq!(rerun["stopRequested"], false);

    assert_eq!(it.send(Method::DELETE, &it.here("/tasks/fix?dryRun=true"), &token, None).await.0, 204);
    assert_eq!(it.get(&it.here("/tasks/fix"), &token).await.0, 200);
    assert_eq!(it.send(Method::DELETE, &it.here("/tasks/fix"), &token, None).await.0, 204);
    let (status, gone) = it.get(&it.here("/tasks/fix"), &token).await;
    assert_eq!((status.as_u16(), gone["error"].as_str()), (404, Some("NotFound")));
    assert_eq!(it.send(Method::DELETE, &it.here("/tasks/fix"), &token, None).await.0, 404);
}

#[tokio::test]
async fn a_dry_run_judges_and_stores_nothing() {
    let it = harness::start().await;
    let token = it.owner().await;
    let good = json!({ "name": "a", "description": "do it", "agentRef": { "name": "dev" } });
    let (status, body) = it.post(&it.here("/tasks?dryRun=true"), &token, &good).await;
    assert_eq!((status.as_u16(), body["name"].as_str()), (201, Some("a")));
    assert_eq!(it.get(&it.here("/tasks/a"), &token).await.0, 404);
    let both =
        json!({ "name": "a", "description": "x", "agentRef": { "name": "dev" }, "templateRef": { "name": "t" } });
    let (status, body) = it.post(&it.here("/tasks?dryRun=true"), &token, &both).await;
    assert_eq!((status.as_u16(), body["field"].as_str()), (422, Some("spec")));
}

#[tokio::test]
async fn an_error_is_reported_with_the_path_of_its_field() {
    let it = harness::start().await;
    let token = it.owner().await;
    for (body, field) in [
        (json!({ "description": "x" }), "spec"),
        (json!({ "description": " " }), "description"),
        (json!({}), "description"),
        (json!({ "description": "x", "agentRef": { "name": "a" }, "foo": 1 }), "foo"),
        (json!({ "description": "x", "agentRef": { "name": "a" }, "timeout": "soon" }), "spec.timeout"),
        (
            json!({ "description": "x", "agentRef": { "name": "a" }, "contexts": [{ "type": "Git" }] }),
            "spec.contexts[0]",
        ),
        (
            json!({ "description": "x", "agentRef": { "name": "a" }, "contexts": [{ "type": "Text", "text": "a", "typo": 1 }] }),
            "spec.contexts[0].typo",
        ),
        (json!({ "kind": "Agent", "spec": {} }), "kind"),
        (
            json!({ "kind": "Task", "metadata": { "name": "a", "namespace": "kube-system" }, "spec": {} }),
            "metadata.namespace",
        ),
    ] {
        let (status, response) = it.post(&it.here("/tasks"), &token, &body).await;
        assert_eq!((status.as_u16(), response["field"].as_str()), (422, Some(field)), "{body}: {response}");
        assert!(response["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
}

#[tokio::test]
async fn a_stale_version_is_refused_and_without_one_the_last_write_wins() {
    let it = harness::start().await;
    let token = it.owner().await;
    let agent = json!({ "name": "dev", "profile": "first" });
    let (_, first) = it.post(&it.here("/agents"), &token, &agent).await;
    let version = first["resourceVersion"].as_str().unwrap();
    let object = |profile: &str, version: Option<&str>| {
        let mut object = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent", "metadata": { "name": "dev" }, "spec": { "profile": profile } });
        if let Some(version) = version {
            object["metadata"]["resourceVersion"] = version.into();
        }
        object
    };
    let url = it.here("/agents/dev");
    let (status, second) = it.send(Method::PUT, &url, &token, Some(&object("second", Some(version)))).await;
    assert_eq!((status.as_u16(), second["profile"].as_str()), (200, Some("second")));
    let (status, stale) = it.send(Method::PUT, &url, &token, Some(&object("third", Some(version)))).await;
    assert_eq!((status.as_u16(), stale["error"].as_str()), (409, Some("Conflict")));
    let (status, last) = it.send(Method::PUT, &url, &token, Some(&object("third", None))).await;
    assert_eq!((status.as_u16(), last["profile"].as_str()), (200, Some("third")));
    let stale =
        it.http.put(&url).bearer_auth(&token).header("if-match", format!("\"{version}\"")).json(&object("x", None));
    assert_eq!(stale.send().await.unwrap().status(), 409);
    let read = it.http.get(&url).bearer_auth(&token).send().await.unwrap();
    let tag = read.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(tag, format!("\"{}\"", last["resourceVersion"].as_str().unwrap()));
    let fresh = it.http.put(&url).bearer_auth(&token).header("if-match", tag).json(&object("fourth", None));
    assert_eq!(fresh.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn pages_are_cut_from_a_sorted_list() {
    let it = harness::start().await;
    let token = it.owner().await;
    for name in ["c", "a", "e", "b", "d"] {
        let task = json!({ "name": name, "description": "x", "agentRef": { "name": "dev" } });
        assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    }
    it.until_listed(&token, "/tasks", 5).await;
    let names = async |query: &str| {
        let (_, list) = it.get(&it.here(&format!("/tasks?{query}")), &token).await;
        let names: Vec<String> =
            list["tasks"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap().to_owned()).collect();
        (names.join(""), list["pagination"]["hasMore"].as_bool().unwrap())
    };
    assert_eq!(names("sortBy=name&sortOrder=asc&limit=2").await, ("ab".to_owned(), true));
    assert_eq!(names("sortBy=name&sortOrder=asc&limit=2&offset=4").await, ("e".to_owned(), false));
    assert_eq!(names("sortBy=name&limit=3").await, ("edc".to_owned(), true));
    assert_eq!(names("offset=99").await, (String::new(), false));
    for (query, field) in [("limit=0", "limit"), ("limit=501", "limit"), ("labelSelector=a%20b%20c", "labelSelector")] {
        let (status, body) = it.get(&it.here(&format!("/tasks?{query}")), &token).await;
        assert_eq!((status.as_u16(), body["field"].as_str()), (400, Some(field)), "{query}");
    }
    for query in ["limit=x", "sortBy=color", "offset=-1"] {
        assert_eq!(it.get(&it.here(&format!("/tasks?{query}")), &token).await.0, 400, "{query}");
    }
}

#[tokio::test]
async fn a_task_has_a_title_and_the_user_who_created_it() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (_, me) = it.get(&it.path("/whoami"), &token).await;
    let me = me["user"].as_str().unwrap();
    let forged = json!({ "kubeopencode.io/created-by": "root", "team": "a" });
    let short = json!({ "name": "fix", "description": "\n# Fix the Login\nDetails", "agentRef": { "name": "dev" },
        "annotations": forged });
    let (status, created) = it.post(&it.here("/tasks"), &token, &short).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!((created["title"].as_str(), created["createdBy"].as_str()), (Some("Fix the Login"), Some(me)));
    let whole = json!({ "kind": "Task", "metadata": { "name": "fix", "annotations": forged },
        "spec": { "description": "Fix the Login", "agentRef": { "name": "dev" } } });
    let (status, changed) = it.send(Method::PUT, &it.here("/tasks/fix"), &token, Some(&whole)).await;
    assert_eq!((status.as_u16(), changed["createdBy"].as_str()), (200, Some(me)), "{changed}");
    assert_eq!(changed["createdWith"], "kubeopencode-server");

    let admin: kube::Api<api::Task> = kube::Api::namespaced(it.admin.clone(), &it.namespace);
    let other = json!({ "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": { "name": "other" },
        "spec": { "description": "x", "agentRef": { "name": "dev" } } });
    let manager = kube::api::PostParams { field_manager: Some("kubectl-create".to_owned()), ..Default::default() };
    admin.create(&manager, &serde_json::from_value(other).unwrap()).await.unwrap();
    let (_, other) = it.get(&it.here("/tasks/other"), &token).await;
    assert_eq!((other.get("createdBy"), other["createdWith"].as_str()), (None, Some("kubectl-create")));

    it.until_listed(&token, "/tasks", 2).await;
    it.until_listed(&token, "/tasks?search=the%20login", 1).await;
    it.until_listed(&token, "/tasks?search=OTH", 1).await;
    it.until_listed(&token, "/tasks?search=nothing", 0).await;
}

#[tokio::test]
async fn a_stopped_task_is_not_a_completed_one() {
    let it = harness::start().await;
    let token = it.owner().await;
    let now = jiff::Timestamp::now().to_string();
    for (name, phase, reason) in [
        ("a", "Completed", "Succeeded"),
        ("b", "Completed", "UserStopped"),
        ("c", "Completed", "Timeout"),
        ("d", "Failed", "ModelError"),
    ] {
        let task = json!({ "name": name, "description": "x", "templateRef": { "name": "t" } });
        assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
        it.set_status("tasks", name, json!({ "phase": phase, "reason": reason, "completionTime": now })).await;
    }
    it.until_listed(&token, "/tasks?phase=Completed", 1).await;
    it.until_listed(&token, "/tasks?phase=Stopped", 2).await;
    it.until_listed(&token, "/tasks?phase=Completed,Stopped", 3).await;
    let url = it.path(&format!("/summary?namespace={}", it.namespace));
    it.until("stopped Tasks are counted apart", async || {
        let tasks = it.get(&url, &token).await.1["tasks"].clone();
        tasks["completed24h"] == 1 && tasks["stopped24h"] == 2 && tasks["failed24h"] == 1
    })
    .await;
}
