//! Clients that mean harm, or have forgotten that they are connected.

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::harness::{self, Harness};

/// Sends bytes as they are, and reads until the server closes.
async fn raw(it: &Harness, bytes: &str) -> String {
    let mut stream = TcpStream::connect(it.url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(harness::LIMIT, stream.read_to_end(&mut answer)).await.expect("still open").unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Logs in; returns the cookie and the CSRF token.
async fn log_in(it: &Harness, token: &str) -> (String, String) {
    let response = it.http.post(it.path("/login")).json(&json!({ "token": token })).send().await.unwrap();
    let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let (_, who) = harness::answer(response).await;
    (cookie, who["csrfToken"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_limit_is_not_escaped_by_made_up_addresses() {
    let it = harness::start_with(server::Options { requests_per_second: 2, ..harness::options() }).await;
    let mut refused = false;
    for number in 0..60 {
        let request = it.http.get(it.path("/health")).header("x-forwarded-for", format!("192.0.2.{number}"));
        refused |= request.send().await.unwrap().status() == 429;
    }
    assert!(refused);

    // Behind a proxy that is trusted, each client has a limit of its own.
    let proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let options = server::Options { requests_per_second: 2, trusted_proxies: proxies, ..harness::options() };
    let it = harness::start_with(options).await;
    for number in 0..60 {
        let request = it.http.get(it.path("/health")).header("x-forwarded-for", format!("192.0.2.{number}"));
        assert_eq!(request.send().await.unwrap().status(), 200, "{number}");
    }
}

#[tokio::test]
async fn a_cookie_cannot_be_made_up_and_a_csrf_token_is_good_for_its_own_session() {
    let it = harness::start().await;
    let token = it.owner().await;
    let (cookie, _) = log_in(&it, &token).await;
    let (_, csrf_of_another) = log_in(&it, &token).await;
    let (name, value) = cookie.split_once('=').unwrap();
    let flipped = format!("{name}={}{}", if value.starts_with('A') { 'B' } else { 'A' }, &value[1..]);
    for forged in [flipped, format!("{name}="), format!("{name}=AAAA"), format!("{name}={{\"h\":\"o\"}}")] {
        let response = it.http.get(it.here("/tasks")).header("cookie", &forged).send().await.unwrap();
        assert_eq!(response.status(), 401, "{forged}");
    }
    assert_eq!(it.http.get(it.here("/tasks")).header("cookie", &cookie).send().await.unwrap().status(), 200);
    let create = it.http.post(it.here("/tasks")).header("cookie", &cookie);
    let create = create.header("x-kubeopencode-csrf", csrf_of_another);
    let body = json!({ "description": "do it", "agentRef": { "name": "dev" } });
    assert_eq!(create.json(&body).send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn only_pages_that_were_named_may_read_answers() {
    let friend = "https://friend.example";
    let options = server::Options { cors_allowed_origins: vec![friend.to_owned()], ..harness::options() };
    let it = harness::start_with(options).await;
    let allowed = async |method: Method, origin: &str| {
        let request = it.http.request(method, it.path("/health")).header("origin", origin);
        let response = request.header("access-control-request-method", "GET").send().await.unwrap();
        assert_eq!(response.headers().get("access-control-allow-credentials"), None);
        response.headers().get("access-control-allow-origin").map(|value| value.to_str().unwrap().to_owned())
    };
    for method in [Method::GET, Method::OPTIONS] {
        assert_eq!(allowed(method.clone(), friend).await.as_deref(), Some(friend));
        for foreign in ["https://evil.example", "https://friend.example.evil.example", "null"] {
            assert_eq!(allowed(method.clone(), foreign).await, None, "{foreign}");
        }
    }
}

#[tokio::test]
async fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let it = harness::start().await;
    let start = "POST /api/v1/login HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
    for headers in [
        "Content-Length: 4\r\nContent-Length: 40\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Bad Header: x\r\n",
    ] {
        let answer = raw(&it, &format!("{start}{headers}\r\n{{}}")).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{headers}: {answer}");
    }
    // Of both lengths the chunks count, and nothing after them is taken for another request.
    let smuggled = "0\r\n\r\nGET /api/v1/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = raw(
        &it,
        &format!("{start}Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{smuggled}"),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 4") && !answer.contains("uptime"), "{answer}");
    let long =
        raw(&it, &format!("GET /{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "a".repeat(1 << 20))).await;
    assert!(long.starts_with("HTTP/1.1 4"), "{long}");
}

#[tokio::test]
async fn a_body_that_never_ends_and_a_connection_that_says_nothing_are_cut_off() {
    let it = harness::start().await;
    let token = it.owner().await;
    let body = raw_of(&it, &token);
    let idle = raw(&it, "GET /api/v1/health HTTP/1.1\r\nHost: a\r\n\r\n");
    let (slow, idle) = tokio::join!(body, idle);
    assert!(slow.starts_with("HTTP/1.1 400") && slow.contains("took too long"), "{slow}");
    assert!(idle.starts_with("HTTP/1.1 200"), "{idle}");
}

/// A body of which a part comes, and then nothing.
async fn raw_of(it: &Harness, token: &str) -> String {
    let namespace = &it.namespace;
    raw(
        it,
        &format!(
            "POST /api/v1/namespaces/{namespace}/tasks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
        ),
    )
    .await
}
