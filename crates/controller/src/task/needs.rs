//! Secrets and ConfigMaps that a run needs: the run starts when they exist.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use domain::{
    run::needs::{Holder, needs},
    workload::contexts::ContextPlan,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Resource, core::NamespaceResourceScope};
use serde::de::DeserializeOwned;

use super::start::Error;
use crate::shared::{
    Shared,
    dependents::{Dependency, Uses, version_of},
};

/// Key names of Secrets and ConfigMaps with the version that has them, so that they are not read again for each start.
#[derive(Debug, Default)]
pub struct KeyNames(Mutex<HashMap<Dependency, (String, Keys)>>);

type Keys = Arc<BTreeSet<String>>;

/// Checks that every Secret and ConfigMap that `pod` needs exists, and adds them to `uses`.
pub async fn check(
    shared: &Shared,
    namespace: &str,
    pod: &Pod,
    contexts: &ContextPlan,
    uses: &mut Uses<'_>,
) -> Result<(), Error> {
    let needs = pod.spec.as_ref().map(|spec| needs(spec, contexts)).unwrap_or_default();
    for holder in needs.keys() {
        uses.add(dependency(namespace, holder));
    }
    let mut missing = Vec::new();
    for (holder, need) in &needs {
        let found = shared.tasks.key_names.of(shared, namespace, holder).await?;
        missing.extend(need.missing_from(holder, found.as_deref()).map(|sentence| (holder.reason(), sentence)));
    }
    let Some((reason, _)) = missing.first() else { return Ok(()) };
    let sentences: Vec<String> = missing.iter().map(|(_, sentence)| sentence.clone()).collect();
    Err(Error::Lacks { reason, message: sentences.join("; ") })
}

fn dependency(namespace: &str, holder: &Holder) -> Dependency {
    match holder {
        Holder::Secret(name) => Dependency::of::<Secret>(namespace, name),
        Holder::ConfigMap(name) => Dependency::of::<ConfigMap>(namespace, name),
    }
}

impl KeyNames {
    /// The keys of an object; `None` if it does not exist.
    async fn of(&self, shared: &Shared, namespace: &str, holder: &Holder) -> Result<Option<Keys>, kube::Error> {
        match holder {
            Holder::Secret(name) => {
                let keys = |secret: Secret| secret.data.into_iter().flatten().map(|(key, _)| key).collect();
                self.read(shared, namespace, name, keys).await
            }
            Holder::ConfigMap(name) => {
                let keys = |map: ConfigMap| {
                    let texts = map.data.into_iter().flatten().map(|(key, _)| key);
                    texts.chain(map.binary_data.into_iter().flatten().map(|(key, _)| key)).collect()
                };
                self.read(shared, namespace, name, keys).await
            }
        }
    }

    async fn read<K>(
        &self,
        shared: &Shared,
        namespace: &str,
        name: &str,
        keys: impl Fn(K) -> BTreeSet<String>,
    ) -> Result<Option<Keys>, kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        let dependency = Dependency::of::<K>(namespace, name);
        let version = shared.dependents.version(&dependency);
        let all = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, keys)) = all().get(&dependency).filter(|(known, _)| Some(known) == version.as_ref()) {
            return Ok(Some(Arc::clone(keys)));
        }
        // Also if the watch does not show the object: the watch may be behind.
        let Some(object) = shared.api::<K>(namespace).get_opt(name).await? else {
            all().remove(&dependency);
            return Ok(None);
        };
        let version = version_of(&object);
        let keys = Arc::new(keys(object));
        all().insert(dependency, (version, Arc::clone(&keys)));
        Ok(Some(keys))
    }
}
