//! Probes.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::ExitCode,
    sync::Arc,
};

use serde_json::{Value, json};
use testenv::{cases, runner::Case};
use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, Stream,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::world::{IMAGE, LIMIT, World, condition, container, sh};

pub const CASES: &[Case] = cases![
    readiness_follows_the_probe,
    a_sick_container_is_restarted,
    a_container_that_never_starts_is_given_up,
    a_probe_by_https_takes_any_certificate,
];

fn server(file: &str) -> Value {
    json!({
        "name": "main", "image": IMAGE,
        "command": ["/server", "serve", "$(IP):8080", "hello", file],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "web", "containerPort": 8080}],
    })
}

async fn readiness_follows_the_probe() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut main = server("/tmp/sick");
    main["startupProbe"] = json!({"tcpSocket": {"port": "web"}, "periodSeconds": 1, "failureThreshold": 30});
    main["readinessProbe"] =
        json!({"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1, "failureThreshold": 1});
    let count = ["sh", "-c", "echo >> /tmp/probes"];
    main["livenessProbe"] = json!({"exec": {"command": count}, "periodSeconds": 1});
    world.create("served", json!({"containers": [main]})).await?;
    let pod = world.ready("served").await?;
    assert_eq!(container(&pod, "main").started, Some(true));
    let run = async |command: &[&str]| {
        let args = command.iter().map(|&arg| arg.to_owned()).collect();
        world
            .node
            .exec(&world.namespace, "served", "main", args, false, false)
            .await?
            .status
            .await
            .map_err(anyhow::Error::from)
    };
    assert_eq!(run(&["touch", "/tmp/sick"]).await?, 0);
    world.until("served", "not ready", |pod| !condition(pod, "Ready")).await?;
    assert_eq!(run(&["rm", "/tmp/sick"]).await?, 0);
    let pod = world.ready("served").await?;
    assert_eq!(container(&pod, "main").restart_count, 0);
    // Three rounds of probes that change nothing write nothing.
    assert_eq!(run(&["rm", "/tmp/probes"]).await?, 0);
    let three_rounds = ["sh", "-c", "until [ -e /tmp/probes ] && [ $(wc -l < /tmp/probes) -ge 3 ]; do sleep 0.1; done"];
    assert_eq!(tokio::time::timeout(LIMIT, run(&three_rounds)).await??, 0);
    let later = world.pods().get("served").await?;
    assert_eq!(later.metadata.resource_version, pod.metadata.resource_version);
    world.end().await
}

async fn a_sick_container_is_restarted() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut main =
        sh("main", "trap 'exit 0' TERM; touch /tmp/well; sleep 1; rm /tmp/well; while :; do sleep 0.1; done");
    main["livenessProbe"] = json!({"exec": {"command": ["test", "-e", "/tmp/well"]}, "periodSeconds": 1,
                                   "failureThreshold": 1, "initialDelaySeconds": 1});
    world.create("sick", json!({"containers": [main]})).await?;
    world
        .until("sick", "restarted", |pod| {
            let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            statuses.into_iter().any(|status| status.restart_count > 0)
        })
        .await?;
    world.end().await
}

async fn a_container_that_never_starts_is_given_up() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut main = sh("main", "trap 'exit 6' TERM; while :; do sleep 0.1; done");
    main["startupProbe"] = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1});
    world.create("never", json!({"restartPolicy": "Never", "containers": [main]})).await?;
    let pod = world.phase("never", "Failed").await?;
    assert_eq!(crate::world::exit_code(&pod, "main"), Some(6));
    world.end().await
}

async fn a_probe_by_https_takes_any_certificate() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut secure = server("");
    secure["command"] = json!(["/server", "serve-tls", "$(IP):8080"]);
    secure["readinessProbe"] = json!({"httpGet": {"port": "web", "scheme": "HTTPS"}, "periodSeconds": 1});
    world.create("secure", json!({"containers": [secure]})).await?;
    // One that speaks plainly is not taken for one that does not.
    let mut plain = server("");
    plain["readinessProbe"] =
        json!({"httpGet": {"port": "web", "scheme": "HTTPS"}, "periodSeconds": 1, "failureThreshold": 1});
    world.create("plain", json!({"containers": [plain]})).await?;
    world.ready("secure").await?;
    let pod = world.until("plain", "running", |pod| condition(pod, "PodReadyToStartContainers")).await?;
    assert!(!condition(&pod, "Ready"));
    world.end().await
}

/// `serve-tls ADDRESS:PORT`: a web server with a self-signed certificate.
pub fn serve_tls(args: &[String]) -> ExitCode {
    let generated = rcgen::generate_simple_self_signed(["nobody".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(generated.signing_key.serialize_der()));
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(vec![generated.cert.der().clone()], key).unwrap());
    let listener = TcpListener::bind(&args[0]).unwrap();
    for mut stream in listener.incoming().map_while(Result::ok) {
        let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = Stream::new(&mut connection, &mut stream);
        let mut request = [0; 4096];
        if stream.read(&mut request).is_ok() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    }
    ExitCode::SUCCESS
}
