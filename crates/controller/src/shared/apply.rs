//! Server-side apply, sent only when something differs.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Mutex, PoisonError},
};

use domain::workload::stamp::stamp;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use observe::Key;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use units::Quantity;

/// Applies objects, and remembers the result.
///
/// The API server normalises some values (`1000m` becomes `1`), so an object can differ from the applied one although
/// it was not changed. The last applied object and the version that resulted from it settle that: the same object is
/// never applied again to that version.
#[derive(Debug, Default)]
pub struct Applied(Mutex<HashMap<(String, Key), Memory>>);

#[derive(Debug)]
struct Memory {
    wanted: Value,
    version: Option<String>,
}

/// Why an object was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused the object or did not answer.
    #[error("{kind} {key} cannot be applied: {}", answer(source))]
    Api { kind: String, key: Key, source: kube::Error },
    /// An object of that name belongs to another owner.
    #[error("{kind} {key} exists and does not belong to {owner}: delete or rename one of them")]
    Taken {
        kind: String,
        key: Key,
        /// Kind and name of the owner that wanted the object.
        owner: String,
    },
    /// The object cannot be serialised.
    #[error("{kind} {key} cannot be written: {source}")]
    Json { kind: String, key: Key, source: serde_json::Error },
}

impl Applied {
    /// Applies `wanted` if it differs from the current object, `live`. Returns the written object, or in a dry run the
    /// object that would be written; `None` if nothing differs.
    ///
    /// An object of that name with another controller stays unchanged.
    pub async fn apply<K>(
        &self,
        client: &Client,
        params: &PatchParams,
        wanted: &K,
        live: Option<&K>,
    ) -> Result<Option<K>, Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let kind = K::kind(&()).into_owned();
        let key = Key::of(wanted);
        let api: Api<K> = Api::namespaced(client.clone(), &key.namespace);
        // The watch shows only objects with our label. An object that it does not show may exist and belong to another
        // owner.
        let looked = match live {
            Some(_) => None,
            None => api.get_opt(&key.name).await.map_err(|source| Error::Api {
                kind: kind.clone(),
                key: key.clone(),
                source,
            })?,
        };
        let live = live.or(looked.as_ref());
        if let Some(live) = live
            && controller_uid(live) != controller_uid(wanted)
        {
            let owner = wanted.owner_references().first().map(|o| format!("{} {}", o.kind, o.name)).unwrap_or_default();
            return Err(Error::Taken { kind, key, owner });
        }
        let json = |object: &K| {
            serde_json::to_value(object).map_err(|source| Error::Json { kind: kind.clone(), key: key.clone(), source })
        };
        let mut wanted_json = json(wanted)?;
        // Only the stamp shows that a field is no longer wanted.
        stamp(&mut wanted_json);
        let slot = (kind.clone(), key.clone());
        if let Some(live) = live
            && (self.settled(&slot, &wanted_json, live) || contains(&json(live)?, &wanted_json))
        {
            return Ok(None);
        }
        let written = api.patch(&key.name, params, &Patch::Apply(&wanted_json)).await.map_err(|source| Error::Api {
            kind,
            key,
            source,
        })?;
        if !params.dry_run {
            self.lock().insert(slot, Memory { wanted: wanted_json, version: written.resource_version() });
        }
        Ok(Some(written))
    }

    /// Forgets a deleted object.
    pub fn forget(&self, kind: &str, key: &Key) {
        self.lock().remove(&(kind.to_owned(), key.clone()));
    }

    fn settled(&self, slot: &(String, Key), wanted: &Value, live: &impl Resource) -> bool {
        self.lock()
            .get(slot)
            .is_some_and(|memory| memory.wanted == *wanted && memory.version == live.meta().resource_version)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, Key), Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer of the API server, or that there was none: a refusal and an outage need different fixes.
pub fn answer(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("the API server refused it: {}", status.message),
        silent => format!("the API server did not answer: {silent}"),
    }
}

/// UID of the owner that controls an object.
pub fn controller_uid(object: &impl Resource) -> Option<&str> {
    let owners = object.meta().owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// Whether every value of `wanted` is in `live`, which may contain more.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, value)| match live.get(key) {
            None => is_nothing(value),
            Some(live) if AMOUNTS.contains(&key.as_str()) => same_amounts(live, value),
            Some(live) => contains(live, value),
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

/// Fields with quantities, which the API server normalises: `1000m` to `1`, `2048Mi` to `2Gi`.
const AMOUNTS: [&str; 3] = ["limits", "requests", "sizeLimit"];

fn same_amounts(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| live.get(key).is_some_and(|live| same_amounts(live, value)))
        }
        (Value::String(live), Value::String(wanted)) => {
            live == wanted || live.parse::<Quantity>().is_ok_and(|live| wanted.parse() == Ok(live))
        }
        (live, wanted) => live == wanted,
    }
}

/// Empty values, which the API server leaves out.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_api_server_are_no_difference() {
        let live = json!({"spec": {"replicas": 1, "containers": [{"name": "a", "image": "x", "pull": "Always"}]}});
        for (wanted, same) in [
            (json!({"spec": {"containers": [{"name": "a", "image": "x"}]}}), true),
            (json!({"spec": {"containers": [{"name": "a", "image": "y"}]}}), false),
            (json!({"spec": {"containers": []}}), false),
            (json!({"spec": {"replicas": 1, "volumes": [], "labels": {}}}), true),
            (json!({"spec": {"replicas": 0}}), false),
            (json!({"spec": {"paused": true}}), false),
        ] {
            assert_eq!(contains(&live, &wanted), same, "{wanted}");
        }
    }

    #[test]
    fn a_refusal_is_not_silence() {
        let refused = kube::Error::Api(kube::core::Status::failure("claims cannot shrink", "Forbidden").boxed());
        assert_eq!(answer(&refused), "the API server refused it: claims cannot shrink");
        assert!(answer(&kube::Error::LinesCodecMaxLineLengthExceeded).starts_with("the API server did not answer: "));
    }

    #[test]
    fn an_amount_is_the_same_however_it_is_written() {
        let live = json!({"limits": {"cpu": "1", "memory": "2Gi"}, "value": "1"});
        for (wanted, same) in [
            (json!({"limits": {"cpu": "1000m", "memory": "2048Mi"}}), true),
            (json!({"limits": {"cpu": "1.0"}}), true),
            (json!({"limits": {"cpu": "1001m"}}), false),
            (json!({"limits": {"memory": "2G"}}), false),
            (json!({"limits": {"gpu": "1"}}), false),
            (json!({"value": "1000m"}), false),
        ] {
            assert_eq!(contains(&live, &wanted), same, "{wanted}");
        }
    }
}
