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
