//! ConfigMaps and Secrets that Pods refer to. They are read on demand and not cached.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvFromSource, Pod, Secret, Volume};
use kube::{Api, Client};

/// Names of objects in the namespace of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References {
    pub(crate) config_maps: BTreeSet<String>,
    pub(crate) secrets: BTreeSet<String>,
}

impl References {
    /// References of the environment of a container.
    pub(crate) fn of_container(container: &Container) -> Self {
        let mut all = Self::default();
        for EnvFromSource { config_map_ref, secret_ref, .. } in container.env_from.iter().flatten() {
            all.config_maps.extend(config_map_ref.iter().map(|source| source.name.clone()));
            all.secrets.extend(secret_ref.iter().map(|source| source.name.clone()));
        }
        for source in container.env.iter().flatten().filter_map(|var| var.value_from.as_ref()) {
            all.config_maps.extend(source.config_map_key_ref.iter().map(|source| source.name.clone()));
            all.secrets.extend(source.secret_key_ref.iter().map(|source| source.name.clone()));
        }
        all
    }

    /// References of a volume.
    pub(crate) fn of_volume(volume: &Volume) -> Self {
        let mut all = Self::default();
        all.config_maps.extend(volume.config_map.iter().map(|source| source.name.clone()));
        all.secrets.extend(volume.secret.iter().filter_map(|source| source.secret_name.clone()));
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            all.config_maps.extend(source.config_map.iter().map(|source| source.name.clone()));
            all.secrets.extend(source.secret.iter().map(|source| source.name.clone()));
        }
        all
    }

    /// All references of a Pod.
    pub(crate) fn of_pod(pod: &Pod) -> Self {
        let mut all = Self::default();
        let Some(spec) = &pod.spec else { return all };
        for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
            all.add(Self::of_container(container));
        }
        for volume in spec.volumes.iter().flatten() {
            all.add(Self::of_volume(volume));
        }
        all
    }

    fn add(&mut self, other: Self) {
        self.config_maps.extend(other.config_maps);
        self.secrets.extend(other.secrets);
    }

    /// Reads the objects from the API server.
    pub(crate) async fn read(&self, client: &Client, namespace: &str) -> Result<Objects, kube::Error> {
        let mut found = Objects { namespace: namespace.to_owned(), ..Objects::default() };
        let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for name in &self.config_maps {
            if let Some(object) = config_maps.get_opt(name).await? {
                found.config_maps.insert(name.clone(), object);
            }
        }
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        for name in &self.secrets {
            if let Some(object) = secrets.get_opt(name).await? {
                found.secrets.insert(name.clone(), object);
            }
        }
        Ok(found)
    }
}

/// The objects that exist.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) namespace: String,
    pub(crate) config_maps: BTreeMap<String, ConfigMap>,
    pub(crate) secrets: BTreeMap<String, Secret>,
}

impl Objects {
    /// The values of a ConfigMap, including binary data.
    pub(crate) fn config_map(&self, name: &str) -> Option<BTreeMap<&str, &[u8]>> {
        let object = self.config_maps.get(name)?;
        let text = object.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes()));
        let bytes = object.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice()));
        Some(text.chain(bytes).collect())
    }

    pub(crate) fn secret(&self, name: &str) -> Option<BTreeMap<&str, &[u8]>> {
        let object = self.secrets.get(name)?;
        Some(object.data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice())).collect())
    }
}
