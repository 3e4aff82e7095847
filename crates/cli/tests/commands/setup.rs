//! `setup` with flags and at a terminal.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Stdio,
};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;

use crate::{check, world::World};

const KEY: &str = "sk-very-secret-0123";

/// A provider with one model that accepts [`KEY`]. Its thread ends with the test process.
fn provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    url
}

fn answer(stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut authorized, mut length) = (false, 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        authorized |= line.trim().eq_ignore_ascii_case(&format!("authorization: bearer {KEY}"));
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    let (status, body) =
        if authorized { ("200 OK", r#"{"data":[{"id":"small-1"}]}"#) } else { ("401 Unauthorized", "{}") };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    reader.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
}

async fn saved_key(world: &World, name: &str) -> ByteString {
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    secrets.get(name).await.unwrap().data.unwrap()["api-key"].clone()
}

#[tokio::test]
async fn a_model_is_set_up_by_flags() {
    let world = World::start().await;
    let url = provider();
    let key_file = world.directory().join("key");
    std::fs::write(&key_file, format!("{KEY}\n")).unwrap();
    let key_file = key_file.display().to_string();
    let flags = ["setup", "--provider", "openai-compatible", "--base-url", &url, "--name", "lab"];
    let with = |more: &[&str]| world.run(&[flags.as_slice(), more].concat());
    check!("setup", with(&["--model", "small-1", "--key-file", &key_file]));
    assert_eq!(saved_key(&world, "lab-key").await, ByteString(KEY.as_bytes().to_vec()));
    let template = world.api("AgentTemplate").get("lab").await.unwrap();
    assert_eq!(template.data["spec"]["modelRef"]["name"], "lab-small-1");

    let mut piped = world.command(&[flags.as_slice(), &["--model", "small-1", "--key-stdin"]].concat());
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(KEY.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let again = world.api("AgentTemplate").get("lab").await.unwrap();
    assert_eq!(again.metadata.resource_version, template.metadata.resource_version, "a repeated setup changes nothing");

    std::fs::write(&key_file, "sk-wrong-secret").unwrap();
    let refused = with(&["--model", "small-1", "--key-file", &key_file]);
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr().contains("does not accept the key (status 401)"), "{}", refused.text());
    assert!(!refused.text().contains("secret"), "{}", refused.text());
    check!("setup-no-provider", world.run(&["setup"]));
    check!("setup-no-key", world.run(&["setup", "--provider", "anthropic"]));
}
