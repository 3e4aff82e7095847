//! CronTasks.

use reqwest::Method;
use serde_json::json;

use crate::harness;

#[tokio::test]
async fn a_crontask_is_created_changed_in_part_triggered_and_looked_back_on() {
    let it = harness::start().await;
    let token = it.owner().await;
    let short = json!({ "name": "nightly", "schedule": "0 3 * * *", "timeZone": "Europe/Berlin", "description": "tidy up", "agentRef": { "name": "dev" } });
    let (status, created) = it.post(&it.here("/crontasks"), &token, &short).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!(
        (created["concurrencyPolicy"].as_str(), created["taskTemplate"]["description"].as_str()),
        (Some("Forbid"), Some("tidy up"))
    );

    let url = it.here("/crontasks/nightly");
    let (status, changed) = it
        .send(
            Method::PUT,
            &url,
            &token,
            Some(&json!({ "schedule": "@hourly", "timeZone": null, "description": "tidy more" })),
        )
        .await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(
        (changed["schedule"].as_str(), changed["taskTemplate"]["description"].as_str()),
        (Some("@hourly"), Some("tidy more"))
    );
    assert_eq!(changed["taskTemplate"]["agentRef"]["name"], "dev");
    assert!(changed.get("timeZone").is_none());
    assert_eq!(it.send(Method::PUT, &url, &token, Some(&json!({ "taskTemplate": {} }))).await.0, 422);
    assert_eq!(
        it.send(Method::PUT, &url, &token, Some(&json!({ "schedule": "often" }))).await.1["field"],
        "spec.schedule"
    );

    assert_eq!(it.post(&it.here("/crontasks/nightly/suspend"), &token, &json!({})).await.1["suspend"], true);
    assert_eq!(it.post(&it.here("/crontasks/nightly/resume"), &token, &json!({})).await.1["suspend"], false);
    let (status, body) = it.post(&it.here("/crontasks/nightly/trigger"), &token, &json!({})).await;
    assert_eq!(status, 200);
    assert!(body["message"].as_str().unwrap().contains("nightly"));
    let text =
        it.http.get(format!("{url}?output=yaml")).bearer_auth(&token).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("kubeopencode.io/trigger"), "{text}");

    let child = json!({ "name": "nightly-1", "description": "x", "agentRef": { "name": "dev" }, "labels": { "kubeopencode.io/crontask": "nightly" } });
    assert_eq!(it.post(&it.here("/tasks"), &token, &child).await.0, 201);
    let other = json!({ "name": "other", "description": "x", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/tasks"), &token, &other).await.0, 201);
    it.until_listed(&token, "/tasks", 2).await;
    let (_, history) = it.get(&it.here("/crontasks/nightly/history"), &token).await;
    assert_eq!((history["total"].as_u64(), history["tasks"][0]["cronTask"].as_str()), (Some(1), Some("nightly")));
    assert_eq!(it.get(&it.here("/crontasks/none/history"), &token).await.0, 404);
}

#[tokio::test]
async fn upcoming_times_are_returned_in_any_zone() {
    let it = harness::start().await;
    let token = it.owner().await;
    let short = json!({ "name": "noon", "schedule": "0 12 * * *", "timeZone": "Asia/Tokyo", "description": "x", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/crontasks"), &token, &short).await.0, 201);
    let (_, body) = it
        .get(&it.here("/crontasks/noon/upcoming?count=2&timeZone=Europe/Berlin&from=2026-01-01T00:00:00Z"), &token)
        .await;
    assert_eq!(
        body["times"],
        json!([
            { "at": "2026-01-01T03:00:00Z", "local": "2026-01-01T04:00:00+01:00" },
            { "at": "2026-01-02T03:00:00Z", "local": "2026-01-02T04:00:00+01:00" },
        ])
    );
    let (status, body) = it.get(&it.path("/upcoming?schedule=99+*+*+*+*"), &token).await;
    assert_eq!((status.as_u16(), body["field"].as_str()), (422, Some("schedule")));
    assert_eq!(it.get(&it.path("/upcoming?schedule=@daily&count=201"), &token).await.0, 400);
    assert_eq!(
        it.get(&it.path("/upcoming?schedule=@daily&count=3"), &token).await.1["times"].as_array().unwrap().len(),
        3
    );
}

#[tokio::test]
async fn a_crontask_with_as_many_tasks_as_it_may_have_refuses_a_trigger_and_promises_no_run() {
    let it = harness::start().await;
    let token = it.owner().await;
    let short = json!({ "name": "full", "schedule": "@daily", "maxRetainedTasks": 1, "description": "x", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/crontasks"), &token, &short).await.0, 201);
    let (_, upcoming) = it.get(&it.here("/crontasks/full/upcoming?count=2"), &token).await;
    assert_eq!((upcoming["times"].as_array().unwrap().len(), upcoming.get("blocked")), (2, None), "{upcoming}");
    // By hand, as people do.
    let task = json!({ "name": "by-hand", "description": "x", "agentRef": { "name": "dev" }, "labels": { "kubeopencode.io/crontask": "full" } });
    assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    it.until_listed(&token, "/tasks", 1).await;

    let (status, body) = it.post(&it.here("/crontasks/full/trigger"), &token, &json!({})).await;
    assert_eq!(status, 409, "{body}");
    let message = body["message"].as_str().unwrap();
    assert!(message.contains("maxRetainedTasks (1)") && message.contains("delete finished Tasks"), "{message}");
    // As the controller reports it.
    let condition = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "MaxRetainedTasksReached", "message": "no run starts",
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    let conditions = json!([condition("Ready", "False"), condition("Blocked", "True")]);
    it.set_status("crontasks", "full", json!({ "conditions": conditions })).await;
    let (_, cron) = it.get(&it.here("/crontasks/full"), &token).await;
    assert_eq!((cron["blocked"].as_str(), cron.get("nextScheduleTime")), (Some("no run starts"), None), "{cron}");
    let (_, upcoming) = it.get(&it.here("/crontasks/full/upcoming"), &token).await;
    assert_eq!((upcoming["blocked"].as_str(), &upcoming["times"]), (Some("no run starts"), &json!([])), "{upcoming}");
    let (status, explained) = it.get(&it.here("/crontasks/full/explain"), &token).await;
    assert_eq!((status.as_u16(), explained["blocked"].as_bool()), (200, Some(true)), "{explained}");
    assert_eq!(explained["chain"][0]["reason"], "MaxRetainedTasksReached");
    let next = explained["next"].as_array().unwrap();
    assert_eq!(next.len(), 1, "one thing to do: {explained}");
}

#[tokio::test]
async fn stopped_tasks_are_found_by_that_word() {
    let it = harness::start().await;
    let token = it.owner().await;
    for name in ["stopped", "done"] {
        let task = json!({ "name": name, "description": "x", "agentRef": { "name": "dev" } });
        assert_eq!(it.post(&it.here("/tasks"), &token, &task).await.0, 201);
    }
    let stopped = json!({ "type": "Stopped", "status": "True", "reason": "UserStopped", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let end = json!({ "phase": "Completed", "reason": "UserStopped", "conditions": [stopped] });
    it.set_status("tasks", "stopped", end).await;
    it.set_status("tasks", "done", json!({ "phase": "Completed", "reason": "Succeeded" })).await;
    for (phase, expected) in [("Stopped", "stopped"), ("Completed", "done")] {
        it.until("the filter knows", async || {
            let (_, list) = it.get(&it.here(&format!("/tasks?phase={phase}")), &token).await;
            list["total"] == 1 && list["tasks"][0]["name"] == expected
        })
        .await;
    }
    // The contract of the API stays.
    let (_, task) = it.get(&it.here("/tasks/stopped"), &token).await;
    assert_eq!(task["phase"], "Completed");
}

#[tokio::test]
async fn a_blocked_crontask_promises_no_run() {
    let it = harness::start().await;
    let token = it.owner().await;
    let short = json!({ "name": "nightly", "schedule": "@daily", "description": "x", "agentRef": { "name": "dev" } });
    assert_eq!(it.post(&it.here("/crontasks"), &token, &short).await.0, 201);
    let blocked = |status: &str| {
        json!({ "nextScheduleTime": "2126-01-01T00:00:00Z", "conditions": [{ "type": "Blocked", "status": status,
            "reason": "RetentionLimitReached", "message": "x", "lastTransitionTime": "2026-01-01T00:00:00Z" }] })
    };
    let next = async || {
        let (_, summary) = it.get(&it.path(&format!("/summary?namespace={}", it.namespace)), &token).await;
        (summary["cronTasks"]["next"].as_array().unwrap().len(), summary["cronTasks"]["blocked"].as_u64().unwrap())
    };
    it.set_status("crontasks", "nightly", blocked("False")).await;
    it.until("the next run is listed", async || next().await == (1, 0)).await;
    it.set_status("crontasks", "nightly", blocked("True")).await;
    it.until("no run is promised", async || next().await == (0, 1)).await;
    let (_, cron) = it.get(&it.here("/crontasks/nightly"), &token).await;
    assert!(cron.get("nextScheduleTime").is_none(), "{cron}");
}
