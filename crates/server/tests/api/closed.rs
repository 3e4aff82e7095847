//! Nothing is open that was not opened.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{self, Harness};

#[tokio::test]
async fn without_a_token_nothing_is_revealed_but_that_one_is_needed() {
    let it = harness::start().await;
    for path in [
        "/tasks",
        "/namespaces",
        "/agents",
        "/whoami",
        "/config",
        "/summary",
        "/graph",
        "/search?text=a",
        "/events/stream",
        "/models",
        "/namespaces/default/tasks/a/logs",
        "/namespaces/default/agents/a/share",
        "/namespaces/default/agents/a/proxy/x",
        "/namespaces/default/agents/a/terminal",
        "/upcoming?schedule=@daily",
    ] {
        let (status, body) = harness::answer(it.http.get(it.path(path)).send().await.unwrap()).await;
        assert_eq!(status, 401, "{path}");
        assert_eq!((body["error"].as_str(), body["code"].as_u64()), (Some("Unauthorized"), Some(401)), "{path}");
    }
    let created =
        it.http.post(it.path("/namespaces/default/tasks")).json(&json!({"description": "x"})).send().await.unwrap();
    assert_eq!(created.status(), 401);
    for path in ["/health", "/ready", "/info", "/openapi.json"] {
        assert_eq!(it.http.get(it.path(path)).send().await.unwrap().status(), 200, "{path}");
    }
}

#[tokio::test]
async fn a_forged_token_opens_nothing() {
    let it = harness::start().await;
    let good = it.owner().await;
    let mut forged = good.clone();
    // The first letter of the signature: its last one may hold bits that do not count.
    let at = forged.rfind('.').unwrap() + 1;
    let other = if forged.as_bytes()[at] == b'A' { "B" } else { "A" };
    forged.replace_range(at..=at, other);
    for token in [forged.as_str(), "x", "eyJhbGciOiJub25lIn0.e30.", "\u{7f}"] {
        let mut request = it.http.get(it.here("/tasks"));
        let Ok(value) = http::HeaderValue::from_bytes(format!("Bearer {token}").as_bytes()) else { continue };
        request = request.header("authorization", value);
        assert_eq!(request.send().await.unwrap().status(), 401, "{token}");
    }
    let basic = it.http.get(it.here("/tasks")).basic_auth("a", Some("b")).send().await.unwrap();
    assert_eq!(basic.status(), 401);
}

/// Logs in; returns the cookie and the CSRF token.
async fn log_in(it: &Harness, token: &str) -> (String, String) {
    let response = it.http.post(it.path("/login")).json(&json!({ "token": token })).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let cookie = response.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(token));
    let who: Value = response.json().await.unwrap();
    (cookie.split(';').next().unwrap().to_owned(), who["csrfToken"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_session_reads_with_its_cookie_and_writes_only_with_its_csrf_token() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (cookie, csrf) = log_in(&it, &token).await;
    let who = it.http.get(it.path("/whoami")).header("cookie", &cookie).send().await.unwrap();
    let who: Value = who.json().await.unwrap();
    assert_eq!(who["user"], format!("system:serviceaccount:{}:owner", it.namespace));
    assert_eq!(who["via"], "session");

    let body = json!({ "name": "a", "description": "do it", "agentRef": { "name": "dev" } });
    let create = || it.http.post(it.here("/tasks")).header("cookie", &cookie).json(&body);
    assert_eq!(create().send().await.unwrap().status(), 403);
    assert_eq!(create().header("x-kubeopencode-csrf", "wrong").send().await.unwrap().status(), 403);
    let foreign = create().header("x-kubeopencode-csrf", &csrf).header("origin", "http://evil.example");
    assert_eq!(foreign.send().await.unwrap().status(), 403);
    let cross = create().header("x-kubeopencode-csrf", &csrf).header("sec-fetch-site", "cross-site");
    assert_eq!(cross.send().await.unwrap().status(), 403);
    let own = create().header("x-kubeopencode-csrf", &csrf).header("origin", &it.url);
    assert_eq!(own.send().await.unwrap().status(), 201);

    let damaged = cookie.replace("session=", "session=A");
    assert_eq!(it.http.get(it.path("/whoami")).header("cookie", damaged).send().await.unwrap().status(), 401);
    let out = it.http.post(it.path("/logout")).header("cookie", &cookie).header("x-kubeopencode-csrf", &csrf);
    let out = out.send().await.unwrap();
    assert_eq!(out.status(), 204);
    assert!(out.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
}

#[tokio::test]
async fn a_foreign_page_cannot_log_somebody_in_and_a_wrong_token_is_refused() {
    let it = harness::start().await;
    let token = it.owner().await;
    let login = |token: &str| it.http.post(it.path("/login")).json(&json!({ "token": token }));
    assert_eq!(login(&token).header("origin", "http://evil.example").send().await.unwrap().status(), 403);
    for wrong in ["wrong", "", " "] {
        assert_eq!(login(wrong).send().await.unwrap().status(), 401, "{wrong:?}");
    }
    assert_eq!(it.http.post(it.path("/login")).json(&json!({})).send().await.unwrap().status(), 422);
    // Guessing is slow.
    let mut last = 0;
    for _ in 0..40 {
        last = login("wrong").send().await.unwrap().status().as_u16();
    }
    assert_eq!(last, 429);
}

#[tokio::test]
async fn a_one_time_link_logs_in_once() {
    let it = harness::start().await;
    let link = it.links.issue().unwrap();
    let first = it.http.get(&link).send().await.unwrap();
    assert_eq!((first.status().as_u16(), first.headers()["location"].to_str().unwrap()), (303, "/"));
    let cookie = first.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let again = it.http.get(&link).send().await.unwrap();
    assert_eq!(again.status(), 401);
    // A page for people, which explains how to get a new link.
    assert!(again.headers()["content-type"].to_str().unwrap().starts_with("text/html"));
    let who = it.http.get(it.path("/whoami")).header("cookie", &cookie).send().await.unwrap();
    let who: Value = who.json().await.unwrap();
    assert_eq!((who["user"].as_str(), who["readOnly"].as_bool()), (Some("owner"), Some(false)));
    let create = it.http.post(it.here("/tasks")).header("cookie", &cookie);
    let create = create.header("x-kubeopencode-csrf", who["csrfToken"].as_str().unwrap());
    let body = json!({ "description": "do it", "agentRef": { "name": "dev" } });
    assert_eq!(create.json(&body).send().await.unwrap().status(), 201);
    assert_eq!(it.http.get(format!("{}/login", it.url)).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_session_is_valid_only_at_the_host_of_the_page() {
    let page = "0123456789abcdef.localhost";
    let it = harness::start_with(server::Options { page_host: Some(page.to_owned()), ..harness::options() }).await;
    let token = it.owner().await;
    let port = it.url.rsplit(':').next().unwrap();
    let link = it.links.issue().unwrap();
    assert!(link.starts_with(&format!("http://{page}:{port}/login?code=")), "{link}");
    let path = link.split_once(port).unwrap().1;
    let get = |host: &str, path: &str| it.http.get(format!("{}{path}", it.url)).header("host", host);
    let at_page = format!("{page}:{port}");
    let machine = format!("127.0.0.1:{port}");

    // Another host neither uses the link up nor learns the name of the page.
    let refused = get(&machine, path).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    assert!(refused.headers().get("set-cookie").is_none());
    assert!(!refused.text().await.unwrap().contains(page));
    let entered = get(&at_page, path).send().await.unwrap();
    assert_eq!(entered.status(), 303);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains("Domain"),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap();

    let whoami =
        async |host: &str| get(host, "/api/v1/whoami").header("cookie", cookie).send().await.unwrap().status().as_u16();
    assert_eq!(whoami(&at_page).await, 200);
    for host in [machine.as_str(), "localhost", "[::1]"] {
        assert_eq!(whoami(host).await, 401, "{host}");
        let by_token = get(host, "/api/v1/whoami").bearer_auth(&token).send().await.unwrap();
        assert_eq!(by_token.status(), 200, "{host}");
        let login = it.http.post(it.path("/login")).header("host", host).json(&json!({ "token": token }));
        assert_eq!(login.send().await.unwrap().status(), 403, "{host}");
        let shown = get(host, "/tasks").send().await.unwrap().text().await.unwrap();
        assert!(shown.contains("kubeopencode login --open") && !shown.contains(page), "{host} {shown}");
    }
    // A name that was made to point here: DNS rebinding.
    for host in ["evil.example", "other.localhost", &format!("evil.example:{port}")] {
        assert_eq!(whoami(host).await, 403, "{host}");
        for path in ["/", "/api/v1/info", path] {
            assert_eq!(get(host, path).bearer_auth(&token).send().await.unwrap().status(), 403, "{host} {path}");
        }
    }
}

#[tokio::test]
async fn anonymous_access_reads_and_does_not_write() {
    let it = harness::start_with(server::Options { anonymous: true, ..harness::options() }).await;
    let (status, who) = harness::answer(it.http.get(it.path("/whoami")).send().await.unwrap()).await;
    assert_eq!((status.as_u16(), who["readOnly"].as_bool()), (200, Some(true)));
    assert_eq!(it.http.get(it.path("/tasks")).send().await.unwrap().status(), 200);
    let body = json!({ "description": "do it", "agentRef": { "name": "dev" } });
    assert_eq!(it.http.post(it.here("/tasks")).json(&body).send().await.unwrap().status(), 403);
    for (method, path) in
        [(Method::DELETE, "/tasks/a"), (Method::POST, "/agents/a/suspend"), (Method::POST, "/crontasks/a/trigger")]
    {
        let status = it.http.request(method, it.here(path)).send().await.unwrap().status();
        assert!(status == 403 || status == 404, "{path} {status}");
    }
}

#[tokio::test]
async fn anonymous_writing_is_a_second_choice_and_still_not_for_other_pages() {
    let options = server::Options { anonymous: true, anonymous_write: true, ..harness::options() };
    let it = harness::start_with(options).await;
    let body = json!({ "name": "a", "description": "do it", "agentRef": { "name": "dev" } });
    let create = || it.http.post(it.here("/tasks")).json(&body);
    assert_eq!(create().header("origin", "http://evil.example").send().await.unwrap().status(), 403);
    assert_eq!(create().send().await.unwrap().status(), 201);
}

#[tokio::test]
async fn every_answer_keeps_browsers_safe() {
    let it = harness::start().await;
    for url in [it.path("/health"), it.path("/tasks"), format!("{}/tasks", it.url), it.path("/nothing")] {
        let response = it.http.get(&url).send().await.unwrap();
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let policy = header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe-inline"), "{url}: {policy}");
        assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"), "{url}");
        assert_eq!(header("x-frame-options").as_deref(), Some("DENY"), "{url}");
        assert!(header("x-request-id").is_some_and(|id| !id.is_empty()), "{url}");
        assert_eq!(header("access-control-allow-origin"), None, "{url}");
    }
}

#[tokio::test]
async fn a_client_that_asks_too_often_has_to_wait() {
    let it = harness::start_with(server::Options { requests_per_second: 2, ..harness::options() }).await;
    let mut refused = None;
    for _ in 0..60 {
        let response = it.http.get(it.path("/health")).send().await.unwrap();
        if response.status() == 429 {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("never refused");
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(harness::answer(refused).await.1["error"], "TooManyRequests");
}
