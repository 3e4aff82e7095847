//! Registry: its assets, polled from their sources at the configured interval.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context as _, ensure};
use api::{Registry, RegistryStatus};
use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use blackbox::{cases, git_server::GitServer, history::History, runner::Case};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::{net::TcpListener, process::Command, task::JoinHandle};

use crate::world::{World, condition, shared};

pub const CASES: &[Case] = cases![
    a_registry_reports_digests_commits_and_versions_and_missing_ones,
    a_registry_is_looked_at_as_often_as_was_asked_and_no_oftener,
    logins_and_ranges_of_versions_are_read_as_docker_and_npm_do,
];

const PASSWORD: &str = "heliotrope";

/// Registries of images and of npm packages, at one address. They end with this value.
struct Shops {
    address: String,
    stock: Arc<Stock>,
    worker: JoinHandle<()>,
}

struct Stock {
    address: String,
    /// Digests by `repository:tag`; those below `private/` need a token, those below `basic/` a password.
    digests: Mutex<HashMap<String, String>>,
    /// How often a manifest was asked for and given.
    looks: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `user:password` as a header has it.
fn basic(pair: &str) -> String {
    let encoded = serde_json::to_value(ByteString(pair.as_bytes().to_vec())).unwrap_or_default();
    encoded.as_str().unwrap_or_default().to_owned()
}

impl Shops {
    async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let stock =
            Arc::new(Stock { address: address.clone(), digests: Mutex::default(), looks: AtomicUsize::default() });
        let router = Router::new()
            .route("/v2/{owner}/{image}/manifests/{tag}", get(manifest))
            .route("/token", get(token))
            .route("/npm/{package}", get(package))
            .with_state(Arc::clone(&stock));
        let worker = tokio::spawn(async move {
            // The only error is a broken listener; clients then see a refused connection.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, stock, worker })
    }

    fn sell(&self, image: &str, digest: &str) {
        lock(&self.stock.digests).insert(image.to_owned(), digest.to_owned());
    }

    fn looks(&self) -> usize {
        self.stock.looks.load(Ordering::SeqCst)
    }
}

impl Drop for Shops {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

/// As the distribution specification has it: a challenge, a token, a digest in a header.
async fn manifest(
    State(stock): State<Arc<Stock>>,
    Path((owner, image, tag)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> Response {
    let repository = format!("{owner}/{image}");
    let given = headers.get("authorization").and_then(|value| value.to_str().ok());
    if owner == "private" && given != Some("Bearer a-token") {
        let challenge = format!(
            "Bearer realm=\"http://{}/token\",service=\"shop\",scope=\"repository:{repository}:pull\"",
            stock.address
        );
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response();
    }
    if owner == "basic" && given != Some(&format!("Basic {}", basic(&format!("somebody:{PASSWORD}")))) {
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Basic realm=\"shop\"")]).into_response();
    }
    if owner == "moved" {
        return Redirect::temporary("http://169.254.169.254/latest/meta-data").into_response();
    }
    let accepts = headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !accepts.contains("application/vnd.oci.image.index.v1+json") {
        return StatusCode::NOT_ACCEPTABLE.into_response();
    }
    match lock(&stock.digests).get(&format!("{repository}:{tag}")) {
        Some(digest) => {
            stock.looks.fetch_add(1, Ordering::SeqCst);
            [("docker-content-digest", digest.clone())].into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn token(Query(query): Query<HashMap<String, String>>, headers: HeaderMap) -> Response {
    let given = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let asked = query.get("scope").is_some_and(|scope| scope == "repository:private/app:pull");
    if asked && given == format!("Basic {}", basic(&format!("somebody:{PASSWORD}"))) {
        return Json(json!({"token": "a-token"})).into_response();
    }
    StatusCode::FORBIDDEN.into_response()
}

async fn package(Path(name): Path<String>) -> Response {
    if name != "@team/audit" {
        return StatusCode::NOT_FOUND.into_response();
    }
    let about = json!({"dist-tags": {"latest": "2.1.0"}, "versions": {"1.0.0": {}, "2.1.0": {}}});
    Json(about).into_response()
}

async fn head_of(repository: &str) -> anyhow::Result<String> {
    let output = Command::new("git").args(["ls-remote", repository, "refs/heads/main"]).output().await?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().context("the repository has no main")?.to_owned())
}

async fn pull_secret(world: &World, name: &str, registry: &str, entry: Value) -> anyhow::Result<()> {
    let config = json!({"auths": {registry: entry}}).to_string();
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config},
    }))?;
    world.api::<Secret>().create(&PostParams::default(), &secret).await?;
    Ok(())
}

/// Waits until the Registry was looked at as its spec is now.
async fn looked_at(world: &World, registry: &History<Registry>, wanted: &str) -> anyhow::Result<RegistryStatus> {
    let generation = world.api::<Registry>().get("r").await?.metadata.generation;
    let done = |registry: &Registry| {
        let status = registry.status.as_ref();
        status.and_then(|status| status.observed_generation) == generation
            && condition(status.and_then(|status| status.conditions.as_ref()), "Ready") == wanted
    };
    let found = registry.until_object("r", &format!("Ready {wanted}"), done).await?;
    Ok(found.status.clone().unwrap_or_default())
}

async fn a_registry_reports_digests_commits_and_versions_and_missing_ones() -> anyhow::Result<()> {
    shared(async |world| {
        let shops = Shops::start().await?;
        let (shop, npm) = (&shops.address, format!("http://{}/npm", shops.address));
        shops.sell("team/app:1", "sha256:aa");
        shops.sell("private/app:1", "sha256:bb");
        let git = GitServer::start([127, 0, 0, 1], &[("SKILL.md", "# a skill")]).await?;
        pull_secret(&world, "login", shop, json!({"username": "somebody", "password": PASSWORD})).await?;
        // As `docker login` writes it.
        pull_secret(&world, "short", shop, json!({"auth": basic(&format!("somebody:{PASSWORD}"))})).await?;
        pull_secret(&world, "wrong", shop, json!({"username": "somebody", "password": "not-it"})).await?;
        let image = |name: &str, image: &str, secret: Option<&str>| {
            json!({"name": name, "image": format!("{shop}/{image}"), "secretRef": secret.map(|name| json!({"name": name}))})
        };
        let skill = |name: &str, reference: &str| {
            json!({"name": name, "git": {"repository": git.url(), "ref": reference}})
        };
        let plugin = |name: &str, package: &str| json!({"name": name, "plugin": {"name": package}});
        let images = json!([
            image("open", "team/app:1", None),
            image("closed", "private/app:1", Some("login")),
            image("closed-short", "private/app:1", Some("short")),
        ]);
        let bad = json!([
            image("missing", "team/app:2", None),
            image("refused", "private/app:1", Some("wrong")),
            image("no-secret", "private/app:1", Some("nobody")),
            {"name": "nowhere", "image": "127.0.0.1:9/x/y"},
            {"name": "metadata", "image": "169.254.169.254/x/y"},
            image("moved", "moved/app:1", None),
        ]);
        let join = |one: &Value, two: &Value| {
            Value::Array([one.as_array().cloned(), two.as_array().cloned()].into_iter().flatten().flatten().collect())
        };
        let spec = json!({
            "npmRegistryURL": npm,
            "images": join(&images, &bad),
            "skills": [skill("skill", "main"), skill("lost", "no-such-branch")],
            "plugins": [plugin("audit", "@team/audit"), plugin("pinned", "@team/audit@1.0.0"), plugin("none", "nothing")],
        });
        let registries = world.record::<Registry>();
        world.create::<Registry>("r", spec).await?;
        let status = looked_at(&world, &registries, "False AssetsUnavailable").await?;

        let images_now = status.images.clone().unwrap_or_default();
        let digest = |name: &str| {
            let found = images_now.iter().find(|asset| asset.name == name);
            found.and_then(|asset| asset.digest.clone().or(asset.message.clone())).unwrap_or_default()
        };
        for (name, expected) in [
            ("open", "sha256:aa"),
            ("closed", "sha256:bb"),
            ("closed-short", "sha256:bb"),
            ("missing", "127.0.0.1 answered 404 Not Found: check the name"),
            ("refused", "127.0.0.1 answered 403 Forbidden: check secretRef"),
            ("no-secret", "Secret 'nobody' does not exist"),
            ("nowhere", "no answer from 127.0.0.1: it cannot be reached"),
            ("metadata", "169.254.169.254 is a link-local or metadata address and may not be read; use another address"),
            (
                "moved",
                "it redirects to 169.254.169.254, which is a link-local or metadata address and may not be read; use another address",
            ),
        ] {
            ensure!(digest(name) == expected, "{name}: {}", digest(name));
        }
        let skills = status.skills.clone().unwrap_or_default();
        ensure!(skills[0].latest_commit == Some(head_of(&git.url()).await?), "{skills:?}");
        let lost = skills[1].message.clone().unwrap_or_default();
        ensure!(lost == "the repository has no 'no-such-branch'", "{lost}");
        let plugins = status.plugins.clone().unwrap_or_default();
        let versions: Vec<_> = plugins.iter().map(|plugin| plugin.resolved_version.clone()).collect();
        ensure!(versions == [Some("2.1.0".to_owned()), Some("1.0.0".to_owned()), None], "{plugins:?}");
        let summary = status.summary.unwrap_or_default();
        ensure!((summary.ready_count, summary.total_count) == (6, 14), "{summary:?}");
        let message = status.conditions.iter().flatten().map(|one| one.message.clone()).collect::<Vec<_>>();
        ensure!(message == ["8 of 14 assets are not there"], "{message:?}");
        ensure!(!serde_json::to_string(&status)?.contains(PASSWORD), "the status holds a password");

        // A change of the spec is looked at without waiting for the interval.
        let spec = json!({"images": images, "skills": [skill("skill", "main")], "plugins": null});
        world.merge::<Registry>("r", json!({ "spec": spec })).await?;
        let status = looked_at(&world, &registries, "True AllAssetsReady").await?;
        ensure!(status.summary.is_some_and(|summary| summary.total_count == 4), "{status:?}");
        world.merge::<Registry>("r", json!({"spec": {"images": null, "skills": null}})).await?;
        looked_at(&world, &registries, "True Empty").await?;
        Ok(())
    })
    .await
}

async fn a_registry_is_looked_at_as_often_as_was_asked_and_no_oftener() -> anyhow::Result<()> {
    shared(async |world| {
        let shops = Shops::start().await?;
        shops.sell("team/app:1", "sha256:old");
        let registries = world.record::<Registry>();
        let image = json!({"name": "app", "image": format!("{}/team/app:1", shops.address)});
        world.create::<Registry>("r", json!({"checkInterval": "10s", "images": [image]})).await?;
        let first = looked_at(&world, &registries, "True AllAssetsReady").await?;
        shops.sell("team/app:1", "sha256:new");
        for number in 0..5 {
            world.annotate::<Registry>("r", "example.com/touched", &number.to_string()).await?;
        }
        let image_of = |status: &RegistryStatus| status.images.iter().flatten().next().cloned();
        let newer = |registry: &Registry| {
            let image = registry.status.as_ref().and_then(image_of);
            image.and_then(|image| image.digest).as_deref() == Some("sha256:new")
        };
        let second = registries.until_object("r", "the new digest", newer).await?;
        ensure!(shops.looks() == 2, "it was looked at {} times", shops.looks());
        let at = |status: &RegistryStatus| image_of(status).and_then(|image| image.last_checked).map(|time| time.0);
        let pause =
            at(&second.status.clone().unwrap_or_default()).zip(at(&first)).map(|(second, first)| second - first);
        ensure!(pause.is_some_and(|pause| pause.get_seconds() >= 9), "{pause:?}");
        Ok(())
    })
    .await
}

async fn logins_and_ranges_of_versions_are_read_as_docker_and_npm_do() -> anyhow::Result<()> {
    shared(async |world| {
        let shops = Shops::start().await?;
        let (shop, npm) = (&shops.address, format!("http://{}/npm", shops.address));
        shops.sell("basic/app:1", "sha256:cc");
        // As `docker login` names some registries.
        let place = format!("http://{shop}/v1/");
        pull_secret(&world, "login", &place, json!({"username": "somebody", "password": PASSWORD})).await?;
        pull_secret(&world, "elsewhere", "quay.io", json!({"username": "somebody", "password": PASSWORD})).await?;
        let image = |name: &str, secret: &str| {
            json!({"name": name, "image": format!("{shop}/basic/app:1"), "secretRef": {"name": secret}})
        };
        let plugin = |name: &str, range: &str| json!({"name": name, "plugin": {"name": format!("@team/audit@{range}")}});
        let spec = json!({
            "npmRegistryURL": npm,
            "images": [image("closed", "login"), image("refused", "elsewhere")],
            "plugins": [plugin("one", "^1.0.0"), plugin("major", "2"), plugin("none", "^9"), plugin("tag", "beta")],
        });
        let registries = world.record::<Registry>();
        world.create::<Registry>("r", spec).await?;
        let status = looked_at(&world, &registries, "False AssetsUnavailable").await?;
        let images = status.images.iter().flatten();
        let images: Vec<_> = images.filter_map(|asset| asset.digest.clone().or(asset.message.clone())).collect();
        let refused = format!("{shop} answered 401 Unauthorized: check secretRef");
        ensure!(images == ["sha256:cc", &refused], "{images:?}");
        let plugins = status.plugins.iter().flatten();
        let plugins: Vec<_> = plugins.filter_map(|a| a.resolved_version.clone().or(a.message.clone())).collect();
        let none = |range: &str| format!("'@team/audit' has no version for '{range}'");
        ensure!(plugins == ["1.0.0", "2.1.0", &none("^9"), &none("beta")], "{plugins:?}");
        Ok(())
    })
    .await
}
