//! image-build and image-push with the real buildah, and a real registry on loopback.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use domain::contract::image::{BuildOrder, BuildReport};
use kubeopencode_pod::env;
use kubeopencode_pod::image_build::{Settings, build, push};

use crate::support::{LIMIT, lookup, until};

/// A registry; killed when dropped.
struct Registry {
    server: Child,
    address: String,
    directory: tempfile::TempDir,
}

impl Registry {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("registry.yml");
        // The port is free when the registry asks for it, unless another program takes it in between: then the next one.
        for _ in 0..10 {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap().to_string();
            drop(free);
            let root = directory.path().join("images");
            let text = format!(
                "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: {address:?}}}\n",
                root.display()
            );
            std::fs::write(&config, text).unwrap();
            let mut server = Command::new("docker-registry")
                .arg("serve")
                .arg(&config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("docker-registry is needed for these tests: scripts/tools installs it");
            let up = until("the registry", LIMIT, || {
                let ended = server.try_wait().unwrap().is_some();
                let connects = tokio::net::TcpStream::connect(address.clone());
                async move { if ended { Some(false) } else { connects.await.ok().map(|_| true) } }
            });
            if up.await {
                return Self { server, address, directory };
            }
        }
        panic!("no port for a registry");
    }

    /// The content with a digest, if it belongs to the repository.
    fn content(&self, repository: &str, kind: &str, digest: &str) -> serde_json::Value {
        let hex = digest.strip_prefix("sha256:").unwrap();
        let root = self.directory.path().join("images/docker/registry/v2");
        let link = root.join("repositories").join(repository).join(kind).join("sha256").join(hex).join("link");
        assert_eq!(std::fs::read_to_string(link).unwrap(), digest);
        let blob = root.join("blobs/sha256").join(&hex[..2]).join(hex).join("data");
        serde_json::from_slice(&std::fs::read(blob).unwrap()).unwrap()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The settings of both containers, with directories below `base`.
fn settings(base: &Path, storage: &str, order: &BuildOrder) -> Settings {
    let below = |name: &str| base.join(name).display().to_string();
    std::fs::create_dir_all(base.join("image")).unwrap();
    let pairs = [
        (env::IMAGE_BUILD, serde_json::to_string(order).unwrap()),
        (env::IMAGE_SOURCE_DIR, below("source")),
        (env::IMAGE_DIR, below("image")),
        (env::BUILD_STORAGE_DIR, below(storage)),
        (env::REGISTRY_LOGIN_FILE, below("no-login")),
        (env::OUTCOME_FILE, below("outcome")),
    ];
    Settings::from_env(&lookup(&pairs)).unwrap()
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn order(image: &str) -> BuildOrder {
    BuildOrder { image: image.to_owned(), dockerfile: "Dockerfile".to_owned(), insecure: true, ..BuildOrder::default() }
}

#[tokio::test]
async fn an_image_is_built_pushed_and_there_by_its_digest() {
    let registry = Registry::start().await;
    let base = tempfile::tempdir().unwrap();
    write(&base.path().join("source/tools/hello"), "hello\n");
    write(&base.path().join("source/build/Dockerfile"), "FROM scratch\nARG WHO\nLABEL who=$WHO\nCOPY hello /hello\n");
    let image = format!("{}/agents/team-a:0123456789ab-0123456789abcdef", registry.address);
    let order = BuildOrder {
        dockerfile: "build/Dockerfile".to_owned(),
        context: "tools".to_owned(),
        args: [("WHO".to_owned(), "an agent".to_owned())].into(),
        ..order(&image)
    };
    build(&settings(base.path(), "build", &order)).await.unwrap();
    let report = push(&settings(base.path(), "push", &order)).await.unwrap();

    let left = std::fs::read_to_string(base.path().join("outcome")).unwrap();
    assert_eq!(BuildReport::read(&left).as_ref(), Some(&report));
    let manifest = registry.content("agents/team-a", "_manifests/revisions", &report.digest);
    assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1), "{manifest}");
    let config = registry.content("agents/team-a", "_layers", manifest["config"]["digest"].as_str().unwrap());
    assert_eq!(config["config"]["Labels"]["who"], "an agent");
}

#[tokio::test]
async fn a_failure_is_reported_in_the_words_of_buildah() {
    let registry = Registry::start().await;
    let base = tempfile::tempdir().unwrap();
    let order = order(&format!("{}/team-a:tag", registry.address));
    write(&base.path().join("source/Dockerfile"), "FROM scratch\nCOPY missing /missing\n");
    let error = build(&settings(base.path(), "build", &order)).await.unwrap_err().to_string();
    assert!(error.starts_with("buildah could not build the image: ") && error.contains("missing"), "{error}");
    // Nothing was handed over.
    let error = push(&settings(base.path(), "push", &order)).await.unwrap_err().to_string();
    assert_eq!(error, "the container that builds left no image");

    write(&base.path().join("source/missing"), "now it is there");
    build(&settings(base.path(), "build-2", &order)).await.unwrap();
    drop(registry);
    let error = push(&settings(base.path(), "push-2", &order)).await.unwrap_err().to_string();
    assert!(error.starts_with("buildah could not push the image: ") && error.contains("connection refused"), "{error}");
}

#[tokio::test]
async fn without_buildah_the_setting_is_named() {
    let base = tempfile::tempdir().unwrap();
    write(&base.path().join("source/Dockerfile"), "FROM scratch\n");
    let settings = Settings { buildah: base.path().join("none"), ..settings(base.path(), "build", &order("r/n:t")) };
    let error = build(&settings).await.unwrap_err().to_string();
    assert!(error.contains("spec.imageBuild.builderImage"), "{error}");
}
