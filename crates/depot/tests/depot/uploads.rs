//! Uploads that do not go as they should.

use std::time::Duration;

use domain::contract::{
    collect::Fetch,
    depot::{Refusal, RefusalReason},
};
use futures::stream;
use kubeopencode_depot::{Depot, Options};
use reqwest::{Body, Method, StatusCode};
use store::Digest;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::timeout,
};

use crate::world::{LIMIT, RunOf, World, keeps, options, publication, refusal, sha256, unique_bytes};

/// The beginning of an upload of `length` bytes, on a connection of its own. Returns once the depot reads the body.
async fn begin(world: &World, run: &RunOf, length: usize, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "PUT /v1/blobs HTTP/1.1\r\nhost: depot\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\
         expect: 100-continue\r\n\r\n",
        run.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut go_on = vec![0; expected.len()];
    timeout(LIMIT, stream.read_exact(&mut go_on)).await.unwrap().unwrap();
    assert_eq!(go_on, expected);
    stream.write_all(first).await.unwrap();
    stream
}

/// The status and the refusal that end a connection.
async fn answer(mut stream: TcpStream) -> (u16, Refusal) {
    let mut text = String::new();
    timeout(LIMIT, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// Whether bytes are stored.
async fn is_stored(world: &World, bytes: &[u8]) -> bool {
    let digest = Digest::parse(&sha256(bytes)).unwrap();
    match world.store.read_blob(&digest, 0..1).await {
        Ok(_) => true,
        Err(store::Error::NoBlob(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_before_and_while_it_is_read() {
    let world = World::with(Options { most_blob_bytes: 1 << 20, ..options() }).await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    world.upload(&run, &unique_bytes(1 << 20)).await;
    // Declared: the client learns it although it goes on sending.
    let large = unique_bytes(8 << 20);
    let upload = |body: Body| world.request(Method::PUT, "/v1/blobs", &run.token).body(body).send();
    let refused = upload(large.clone().into()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(refusal(refused).await.message, "the body has more than 1048576 bytes");
    // Not declared.
    let chunks: Vec<Result<Vec<u8>, std::io::Error>> = large.chunks(1 << 16).map(|chunk| Ok(chunk.to_vec())).collect();
    let refused = upload(Body::wrap_stream(stream::iter(chunks))).await.unwrap();
    assert_eq!(refusal(refused).await.reason, RefusalReason::TooLarge);
    assert!(!is_stored(&world, &large).await);
}

#[tokio::test]
async fn a_body_without_a_declared_length_is_stored() {
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    let bytes = unique_bytes(20 << 20);
    let chunks: Vec<Result<Vec<u8>, std::io::Error>> = bytes.chunks(70_000).map(|chunk| Ok(chunk.to_vec())).collect();
    let request = world.request(Method::PUT, "/v1/blobs", &run.token).body(Body::wrap_stream(stream::iter(chunks)));
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    assert!(is_stored(&world, &bytes).await);
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_nothing() {
    // With one upload at a time, the next one also shows that its predecessor is gone.
    let world = World::with(Options { uploads: 1, ..options() }).await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    for length in [1000, 20 << 20] {
        let bytes = unique_bytes(length);
        let (half, _) = bytes.split_at(length / 2);
        let broken = begin(&world, &run, length, half).await;
        drop(broken);
        let whole = unique_bytes(1000);
        world.upload(&run, &whole).await;
        assert!(!is_stored(&world, &bytes).await && !is_stored(&world, half).await);
        let refused = refusal(world.post("/v1/artifacts/dist", &run, &publication(&bytes)).await).await;
        assert_eq!(refused.reason, RefusalReason::Malformed);
    }
    assert_eq!(world.store.artifacts(&run.key().task).await.unwrap(), []);
}

#[tokio::test]
async fn a_body_that_ends_early_is_refused() {
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    let mut stream = begin(&world, &run, 1000, b"only this").await;
    stream.shutdown().await.unwrap();
    // The connection may end without an answer: nobody waits for one.
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(!answer.contains("200 OK"), "{answer}");
    assert!(!is_stored(&world, b"only this").await);
}

#[tokio::test]
async fn a_client_that_stops_sending_is_told_so_and_given_up() {
    let world = World::with(Options { patience: Duration::from_millis(100), ..options() }).await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    let (status, refused) = answer(begin(&world, &run, 1000, b"and then").await).await;
    assert_eq!((status, &*refused.message), (408, "the body arrives too slowly"));
}

#[tokio::test]
async fn uploads_beyond_the_limit_wait_and_are_then_told_to_come_back() {
    let world = World::with(Options { uploads: 1, turn: Duration::from_millis(50), ..options() }).await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    let mut slow = begin(&world, &run, 6, b"slo").await;
    let request = world.request(Method::PUT, "/v1/blobs", &run.token).body("quick");
    let refused = request.send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "5");
    assert!(refusal(refused).await.reason.is_temporary());
    // The first one is not disturbed.
    slow.write_all(b"wer").await.unwrap();
    let mut first = [0; 15];
    timeout(LIMIT, slow.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    assert!(is_stored(&world, b"slower").await);
}

#[tokio::test]
async fn an_open_upload_is_finished_at_shutdown() {
    let mut world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let depot = Depot::new(world.client.clone(), world.store.clone(), options());
    let serving = tokio::spawn(async move { depot.serve(listener, async { drop(stopped.await) }).await });
    world.address = address;
    let mut open = begin(&world, &run, 8, b"half").await;
    stop.send(()).unwrap();
    open.write_all(b"half").await.unwrap();
    let mut text = String::new();
    timeout(LIMIT, open.read_to_string(&mut text)).await.unwrap().unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    timeout(LIMIT, serving).await.unwrap().unwrap().unwrap();
    assert!(is_stored(&world, b"halfhalf").await);
}

#[tokio::test]
async fn a_store_that_fails_is_an_answer_to_try_again() {
    let world = World::new().await;
    let run = world.run("fix", &keeps(&["dist"]), &Fetch::default()).await;
    // As if its disk were gone.
    std::fs::remove_dir_all(world.dir.path().join("blobs")).unwrap();
    std::fs::write(world.dir.path().join("blobs"), "").unwrap();
    for bytes in [unique_bytes(10), unique_bytes(20 << 20)] {
        let request = world.request(Method::PUT, "/v1/blobs", &run.token).body(bytes.clone());
        let refused = refusal(request.send().await.unwrap()).await;
        assert_eq!(refused.reason, RefusalReason::Unavailable);
        assert_eq!(refused.message, "the store cannot be used now; try again");
        assert!(!is_stored(&world, &bytes).await);
    }
}
