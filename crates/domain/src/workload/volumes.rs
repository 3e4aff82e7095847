//! Volumes of the built Pods, and their mounts.

use std::collections::BTreeMap;

use api::workload::{CaBundle, CaBundlePlace, Credential};
use k8s_openapi::{
    api::core::v1::{
        ConfigMapVolumeSource, EmptyDirVolumeSource, EnvFromSource, EnvVar, KeyToPath,
        PersistentVolumeClaimVolumeSource, SecretEnvSource, SecretVolumeSource, Volume, VolumeMount,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use sha2::{Digest as _, Sha256};

use crate::{
    contract::paths,
    workload::{contexts::hex, environment},
};

/// Name of the volume with certificate authorities.
pub(crate) const CA_BUNDLE: &str = "ca-bundle";
/// Permission bits of credential files.
const PRIVATE: i32 = 0o600;

/// A mount and its description for messages.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mounted {
    pub mount: VolumeMount,
    pub what: String,
}

/// A volume that is deleted with the Pod.
pub(crate) fn empty(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

/// A volume from a claim.
pub(crate) fn claim(name: &str, claim_name: &str) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name: claim_name.to_owned(), read_only: None };
    Volume { name: name.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() }
}

/// A volume with every key of a ConfigMap.
pub(crate) fn config_map(name: &str, config_map: &str, optional: bool) -> Volume {
    let source = ConfigMapVolumeSource {
        name: config_map.to_owned(),
        optional: optional.then_some(true),
        ..ConfigMapVolumeSource::default()
    };
    Volume { name: name.to_owned(), config_map: Some(source), ..Volume::default() }
}

/// The certificates of a bundle, as one file `tls.crt`.
pub(crate) fn authorities(bundle: &CaBundle) -> Option<Volume> {
    let item = |key| Some(vec![KeyToPath { key, path: paths::CA_FILE_NAME.to_owned(), mode: None }]);
    let mut volume = Volume { name: CA_BUNDLE.to_owned(), ..Volume::default() };
    match bundle.place()? {
        CaBundlePlace::ConfigMap { name, key } => {
            volume.config_map =
                Some(ConfigMapVolumeSource { name, items: item(key), ..ConfigMapVolumeSource::default() });
        }
        CaBundlePlace::Secret { name, key } => {
            volume.secret =
                Some(SecretVolumeSource { secret_name: Some(name), items: item(key), ..SecretVolumeSource::default() });
        }
    }
    Some(volume)
}

pub(crate) fn authorities_mount() -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount(CA_BUNDLE, paths::CA_DIRECTORY) }
}

pub(crate) fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

/// Mounts a subdirectory of a volume.
pub(crate) fn part(volume: &str, path: &str, sub_path: Option<String>) -> VolumeMount {
    VolumeMount { sub_path, ..mount(volume, path) }
}

/// Variables, volumes and mounts of an agent's credentials.
#[derive(Default)]
pub(crate) struct Credentials {
    pub env: Vec<EnvVar>,
    pub env_from: Vec<EnvFromSource>,
    pub volumes: Vec<Volume>,
    pub mounts: Vec<Mounted>,
}

/// Builds credentials in all their forms; see [`Credential`]. A key without env and path becomes a variable with the
/// key's name, as if the whole Secret were given.
pub(crate) fn credentials(credentials: &[Credential], workspace: &str) -> Credentials {
    let mut given = Credentials::default();
    for (index, credential) in credentials.iter().enumerate() {
        let secret = &credential.secret_ref.name;
        let key = credential.secret_ref.key.as_deref().filter(|key| !key.is_empty());
        let path = credential.mount_path.as_deref().filter(|path| !path.is_empty());
        let env = credential.env.as_deref().filter(|env| !env.is_empty());
        match (key, path) {
            (None, None) => given.env_from.push(EnvFromSource {
                secret_ref: Some(SecretEnvSource { name: secret.clone(), optional: None }),
                ..EnvFromSource::default()
            }),
            (Some(key), None) => given.env.push(variable(env.unwrap_or(key), secret, key)),
            (Some(key), Some(_)) => given.env.extend(env.map(|env| variable(env, secret, key))),
            (None, Some(_)) => {}
        }
        let Some(path) = path else { continue };
        let name = format!("credential-{index}");
        let mode = credential.file_mode.unwrap_or(PRIVATE);
        let file = key.map(|key| KeyToPath { key: key.to_owned(), path: "secret-file".to_owned(), mode: Some(mode) });
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{workspace}/{path}") };
        given.mounts.push(Mounted {
            mount: VolumeMount {
                read_only: Some(true),
                ..part(&name, &path, file.as_ref().map(|file| file.path.clone()))
            },
            what: format!("credential {:?}", credential.name),
        });
        given.volumes.push(Volume {
            name,
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.clone()),
                default_mode: Some(mode),
                items: file.map(|file| vec![file]),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
    }
    given
}

fn variable(name: &str, secret: &str, key: &str) -> EnvVar {
    environment::secret(name, &api::refs::SecretKeyRef { name: secret.to_owned(), key: key.to_owned() })
}

/// A volume name for a directory; different directories have different names.
pub(crate) fn directory_volume(path: &str) -> String {
    let plain: String =
        path.chars().map(|char| if char.is_ascii_lowercase() || char.is_ascii_digit() { char } else { '-' }).collect();
    let plain = plain.trim_matches('-');
    // A path that is not built of lower-case plain names gets a hash: `/a-b` and `/a/b` are two directories.
    let exact = path
        .split('/')
        .skip(1)
        .all(|name| !name.is_empty() && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit()));
    if exact && plain.len() <= 50 {
        return format!("ctx-{plain}");
    }
    let head: String = plain.chars().take(40).collect();
    let hash = hex(&Sha256::digest(path), 12);
    // Exact names contain no `--`, so a name with a hash never equals them.
    format!("ctx-{}--{hash}", head.trim_matches('-'))
}

/// A quantity such as `768Mi`.
pub(crate) fn quantity(text: &str) -> Quantity {
    Quantity(text.to_owned())
}

pub(crate) fn amount(name: &str, value: &str) -> BTreeMap<String, Quantity> {
    [(name.to_owned(), quantity(value))].into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::workload::CredentialSecretRef;

    #[test]
    fn directories_that_look_alike_have_volumes_of_their_own() {
        let paths = ["/a/b", "/a-b", "/A/b", "/a/b-", "/a/./b", "/a--b", &format!("/{}", "x".repeat(100))];
        let names: std::collections::BTreeSet<String> = paths.iter().map(|path| directory_volume(path)).collect();
        assert_eq!(names.len(), paths.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 63));
        assert_eq!(directory_volume("/home/agent"), "ctx-home-agent");
    }

    #[test]
    fn every_form_of_a_credential_is_given() {
        let check = |key: Option<&str>, env: Option<&str>, path: Option<&str>, expected: (usize, usize, usize)| {
            let credential = Credential {
                name: "c".into(),
                secret_ref: CredentialSecretRef { name: "s".into(), key: key.map(str::to_owned) },
                mount_path: path.map(str::to_owned),
                env: env.map(str::to_owned),
                file_mode: None,
            };
            let built = credentials(&[credential], "/workspace");
            assert_eq!(
                (built.env_from.len(), built.env.len(), built.mounts.len()),
                expected,
                "{key:?} {env:?} {path:?}"
            );
        };
        check(None, None, None, (1, 0, 0));
        check(None, None, Some("/secrets"), (0, 0, 1));
        check(Some("k"), Some("E"), None, (0, 1, 0));
        check(Some("k"), None, Some("/f"), (0, 0, 1));
        check(Some("k"), Some("E"), Some("/f"), (0, 1, 1));
        check(Some("k"), None, None, (0, 1, 0));
    }
}
