//! Invalid input is refused.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::harness;

#[tokio::test]
async fn bodies_that_are_too_large_broken_or_of_another_type_are_refused() {
    let it = harness::start().await;
    let token = it.owner().await;
    let post = || it.http.post(it.here("/tasks")).bearer_auth(&token);
    let check = async |request: reqwest::RequestBuilder, code: u16, error: &str| {
        let (status, body) = harness::answer(request.send().await.unwrap()).await;
        assert_eq!(
            (status.as_u16(), body["error"].as_str(), body["code"].as_u64()),
            (code, Some(error), Some(u64::from(code))),
            "{body}"
        );
    };
    let json = |body: Vec<u8>| post().header("content-type", "application/json").body(body);
    let yaml = |body: Vec<u8>| post().header("content-type", "application/yaml").body(body);
    check(json(vec![b' '; 1024 * 1024 + 1]), 413, "TooLarge").await;
    let chunks = futures::stream::iter((0..300).map(|_| Ok::<_, std::io::Error>(vec![b' '; 4096])));
    check(post().header("content-type", "application/json").body(reqwest::Body::wrap_stream(chunks)), 413, "TooLarge")
        .await;
    check(post().body("{}"), 415, "UnsupportedMediaType").await;
    check(post().header("content-type", "text/plain").body("{}"), 415, "UnsupportedMediaType").await;
    check(json(b"{".to_vec()), 400, "BadRequest").await;
    check(json(b"{\"description\": \"\xff\"}".to_vec()), 400, "BadRequest").await;
    check(json(b"[]".to_vec()), 400, "BadRequest").await;
    check(json(Vec::new()), 400, "BadRequest").await;
    check(yaml(b"description: \xff".to_vec()), 400, "BadRequest").await;
    check(yaml(b"a: [".to_vec()), 400, "BadRequest").await;
    check(yaml(format!("a: {}", "[".repeat(100_000)).into_bytes()), 400, "BadRequest").await;
    check(json(format!("{{\"a\": {}", "[".repeat(100_000)).into_bytes()), 400, "BadRequest").await;
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let status = yaml(bomb.as_bytes().to_vec()).send().await.unwrap().status();
    assert!(status.is_client_error(), "{status}");
}

#[tokio::test]
async fn paths_with_tricks_lead_nowhere() {
    let it = harness::start().await;
    let token = it.owner().await;
    for path in [
        "/namespaces/..%2f..%2fapi%2fv1%2fsecrets/tasks",
        "/namespaces/default/tasks/..%2f..%2fsecrets",
        "/namespaces/default/tasks/%2e%2e",
        "/namespaces/default/tasks/a%00b",
        "/namespaces/default/tasks/A",
        "/namespaces/default/tasks/%ff",
        "/namespaces/%ff/tasks",
        "/namespaces/default/tasks/a%3fx=y",
        "/namespaces/default%2ftasks/tasks",
    ] {
        let (status, body) = raw(&it.url, &format!("/api/v1{path}"), &token).await;
        assert_eq!(status, 400, "{path}: {body}");
        assert!(body.contains("\"error\":\"BadRequest\""), "{path}: {body}");
    }
    for path in [
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/nothing",
        "/api/v1//tasks",
        "/api/v2/tasks",
    ] {
        let (status, body) = raw(&it.url, path, &token).await;
        assert_eq!(status, 404, "{path}: {body}");
        assert!(body.contains("\"error\":\"NotFound\""), "{path}: {body}");
    }
}

/// A request whose path no client tidies up.
async fn raw(url: &str, path: &str, token: &str) -> (u16, String) {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(harness::LIMIT, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[tokio::test]
async fn a_method_that_a_path_does_not_know_is_refused() {
    let it = harness::start().await;
    let token = it.owner().await;
    for (method, path) in [
        (reqwest::Method::PATCH, "/tasks/a"),
        (reqwest::Method::DELETE, "/tasks"),
        (reqwest::Method::GET, "/tasks/a/stop"),
    ] {
        let (status, body) = it.send(method, &it.here(path), &token, None).await;
        assert_eq!((status.as_u16(), body["error"].as_str()), (405, Some("MethodNotAllowed")), "{path}");
    }
    assert_eq!(it.post(&it.here("/agents/a/terminal"), &token, &json!({})).await.0, 405);
}

#[tokio::test]
async fn a_client_that_sends_half_a_request_holds_up_nobody() {
    let it = harness::start().await;
    let token = it.owner().await;
    let host = it.url.strip_prefix("http://").unwrap();
    let mut half = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let start = format!(
            "POST /api/v1/namespaces/{}/tasks HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 100\r\nAuthorization: Bearer {token}\r\n\r\n{{",
            it.namespace
        );
        stream.write_all(start.as_bytes()).await.unwrap();
        half.push(stream);
    }
    assert_eq!(it.get(&it.here("/tasks"), &token).await.0, 200);
    drop(half);
    assert_eq!(it.get(&it.here("/tasks"), &token).await.0, 200);
}

#[tokio::test]
async fn a_client_that_never_says_what_it_wants_is_cut_off() {
    let it = harness::start().await;
    let mut stream = TcpStream::connect(it.url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.write_all(b"GET /api/v1/health HTTP/1.1\r\nHo").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(harness::LIMIT, stream.read_to_end(&mut answer)).await.expect("still open").unwrap();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"));
}
