//! The volumes of a Pod, as directories of the machine.

pub(crate) mod atomic;
pub(crate) mod memory;
pub(crate) mod payload;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Container, Pod, ServiceAccount, ServiceAccountTokenProjection, Volume},
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use units::Quantity;

use crate::{
    pod::{downward_api::DownwardApi, environment::Environment, objects::References},
    process::helper::Mount,
    volumes::payload::{Payload, PayloadError},
};

/// Default and minimum of Kubernetes.
const TOKEN_SECONDS: i64 = 3607;
const MIN_TOKEN_SECONDS: i64 = 600;

/// Errors of the volume setup. The node retries.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("MountVolume.SetUp failed for volume {volume:?} : {problem}")]
    SetUp { volume: String, problem: String },
    #[error("cannot read the objects of the volumes: {0}")]
    Read(#[from] kube::Error),
}

/// Directories and permissions for the volumes of a Pod.
#[derive(Clone, Debug)]
pub(crate) struct VolumePaths {
    /// The directory of the Pod's volumes.
    pub(crate) volumes: PathBuf,
    /// The directory of the claims of the namespace.
    pub(crate) claims: PathBuf,
    /// Whether hostPath volumes are allowed.
    pub(crate) host_paths: bool,
    /// Whether the node can mount a tmpfs.
    pub(crate) memory: bool,
    /// Owner of volumes, where the node can change it.
    pub(crate) group: Option<u32>,
}

#[derive(Clone, Debug)]
struct Ready {
    path: PathBuf,
    /// The current content, if it is generated from objects.
    shows: Option<Payload>,
}

#[derive(Debug, Default)]
pub(crate) struct Volumes {
    ready: HashMap<String, Ready>,
    tokens: HashMap<String, Token>,
}

#[derive(Debug)]
struct Token {
    text: String,
    renew_at: Timestamp,
}

impl Volumes {
    /// Sets up all volumes, or updates those generated from objects. Unchanged volumes are not touched.
    pub(crate) async fn set_up(
        &mut self,
        client: &Client,
        facts: &DownwardApi<'_>,
        places: &VolumePaths,
    ) -> Result<(), VolumeError> {
        let namespace = facts.pod.namespace().unwrap_or_default();
        for volume in volumes(facts.pod) {
            let fails = |problem: String| VolumeError::SetUp { volume: volume.name.clone(), problem };
            let tokens = self.tokens(client, facts.pod, volume).await.map_err(fails)?;
            let objects = References::of_volume(volume).read(client, &namespace).await?;
            let path = places.volumes.join(&volume.name);
            let shows = payload::payload(volume, facts, &objects, &tokens)
                .map_err(|error: PayloadError| fails(error.to_string()))?;
            let path = match &shows {
                Some(files) => {
                    let known = self.ready.get(&volume.name).and_then(|ready| ready.shows.as_ref());
                    if known != Some(files) {
                        atomic::write(&path, files, places.group).map_err(|error| fails(error.to_string()))?;
                    }
                    path
                }
                None => directory(volume, path, places).map_err(fails)?,
            };
            self.ready.insert(volume.name.clone(), Ready { path, shows });
        }
        Ok(())
    }

    /// When the next token must be renewed.
    pub(crate) fn renew_at(&self) -> Option<Timestamp> {
        self.tokens.values().map(|token| token.renew_at).min()
    }

    /// The mounts of a container.
    pub(crate) fn mounts(&self, container: &Container, environment: &Environment) -> Result<Vec<Mount>, VolumeError> {
        let mut mounts = Vec::new();
        for mount in container.volume_mounts.iter().flatten() {
            let fails = |problem: &str| VolumeError::SetUp { volume: mount.name.clone(), problem: problem.to_owned() };
            let ready = self.ready.get(&mount.name).ok_or_else(|| fails("the Pod has no such volume"))?;
            let part = match (&mount.sub_path, &mount.sub_path_expr) {
                (Some(path), _) if !path.is_empty() => Some(path.clone()),
                (_, Some(path)) if !path.is_empty() => environment.expand(std::slice::from_ref(path)).pop(),
                _ => None,
            };
            if part.as_deref().is_some_and(|part| part.starts_with('/') || part.split('/').any(|name| name == "..")) {
                return Err(fails("its subPath leaves the volume"));
            }
            mounts.push(Mount {
                source: ready.path.clone(),
                part: part.map(PathBuf::from),
                target: PathBuf::from(&mount.mount_path),
                read_only: ready.shows.is_some() || mount.read_only.unwrap_or_default(),
            });
        }
        Ok(mounts)
    }

    async fn tokens(
        &mut self,
        client: &Client,
        pod: &Pod,
        volume: &Volume,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut tokens = BTreeMap::new();
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for wanted in sources.filter_map(|source| source.service_account_token.as_ref()) {
            let key = format!("{}/{}", volume.name, wanted.path);
            let now = Timestamp::now();
            let fresh = self.tokens.get(&key).filter(|token| now < token.renew_at);
            let text = if let Some(token) = fresh {
                token.text.clone()
            } else {
                let token = request_token(client, pod, wanted, now).await?;
                let text = token.text.clone();
                self.tokens.insert(key, token);
                text
            };
            tokens.insert(wanted.path.clone(), text);
        }
        Ok(tokens)
    }
}

async fn request_token(
    client: &Client,
    pod: &Pod,
    wanted: &ServiceAccountTokenProjection,
    now: Timestamp,
) -> Result<Token, String> {
    let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    let account = account.unwrap_or_else(|| "default".to_owned());
    let seconds = wanted.expiration_seconds.unwrap_or(TOKEN_SECONDS).max(MIN_TOKEN_SECONDS);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: wanted.audience.clone().into_iter().filter(|audience| !audience.is_empty()).collect(),
            expiration_seconds: Some(seconds),
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: Some(pod.name_any()),
                uid: pod.uid(),
            }),
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let answer = accounts.create_token_request(&account, &PostParams::default(), &request).await;
    let problem = |detail: String| format!("no token for ServiceAccount {account:?}: {detail}");
    let status = answer.map_err(|error| problem(error.to_string()))?.status;
    let status = status.ok_or_else(|| problem("the response contains none".to_owned()))?;
    // As the kubelet: after 80 % of its lifetime.
    let lives = status.expiration_timestamp.0.duration_since(now).as_secs().max(0);
    let renew_at = now.checked_add(jiff::SignedDuration::from_secs(lives / 5 * 4)).unwrap_or(Timestamp::MAX);
    Ok(Token { text: status.token, renew_at })
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// The directory of a volume that is not generated from objects.
fn directory(volume: &Volume, own: PathBuf, places: &VolumePaths) -> Result<PathBuf, String> {
    let text = |error: io::Error| error.to_string();
    if let Some(source) = &volume.host_path {
        if !places.host_paths {
            return Err("hostPath volumes are disabled: start with --host-images to allow them".to_owned());
        }
        let path = PathBuf::from(&source.path);
        if source.type_.as_deref() == Some("DirectoryOrCreate") {
            std::fs::create_dir_all(&path).map_err(text)?;
        }
        return if path.exists() { Ok(path) } else { Err(format!("hostPath {:?} does not exist", source.path)) };
    }
    let path = if let Some(claim) = &volume.persistent_volume_claim {
        places.claims.join(Path::new(&claim.claim_name).file_name().unwrap_or_default())
    } else if volume.empty_dir.is_some() || volume.ephemeral.is_some() {
        own
    } else {
        return Err("this node only supports emptyDir, configMap, secret, downwardAPI, projected, ephemeral and \
                    persistentVolumeClaim volumes"
            .to_owned());
    };
    let in_memory = volume.empty_dir.as_ref().filter(|empty| empty.medium.as_deref() == Some("Memory"));
    if let Some(empty) = in_memory.filter(|_| places.memory) {
        let size = empty.size_limit.as_ref().and_then(|limit| limit.0.parse::<Quantity>().ok());
        memory::mount(&path, size.and_then(|size| u64::try_from(size.ceil()).ok())).map_err(text)?;
    }
    atomic::open_directory(&path, places.group).map_err(text)?;
    Ok(path)
}
