//! An object as the API server sent it, parsed only as far as a watch needs.
//!
//! The watch code is large, and one instance per kind costs memory. All kinds share one instance over raw objects.

use std::borrow::Cow;

use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope, ObjectMeta},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;

/// An object whose body is not deserialized yet.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    meta: ObjectMeta,
    json: Box<RawValue>,
}

impl Raw {
    /// Deserializes the object as kind `K`.
    pub(crate) fn read<K: DeserializeOwned>(&self) -> serde_json::Result<K> {
        serde_json::from_str(self.json.get())
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Object {
            #[serde(default)]
            metadata: Identity,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Identity {
            name: Option<String>,
            namespace: Option<String>,
            resource_version: Option<String>,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Object { metadata } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let Identity { name, namespace, resource_version } = metadata;
        Ok(Self { meta: ObjectMeta { name, namespace, resource_version, ..ObjectMeta::default() }, json })
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        (&of.kind).into()
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        (&of.group).into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        (&of.version).into()
    }

    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        (&of.api_version).into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        (&of.plural).into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    const GOOD: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":{"x":"y"}},"data":{"k":"v"}}"#;
    const BAD: &str = r#"{"metadata":{"name":"b","namespace":"n","labels":[]},"data":5}"#;

    #[test]
    fn one_that_cannot_be_read_still_says_which_it_is() {
        let list = format!(r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"9"}},"items":[{GOOD},{BAD}]}}"#);
        let list: ObjectList<Raw> = serde_json::from_str(&list).unwrap();
        let [good, bad] = list.items.as_slice() else { panic!("{list:?}") };
        let map: ConfigMap = good.read().unwrap();
        assert_eq!((map.data.unwrap()["k"].as_str(), map.metadata.labels.unwrap()["x"].as_str()), ("v", "y"));
        assert_eq!(bad.meta.name.as_deref(), Some("b"));
        assert!(bad.read::<ConfigMap>().is_err());
    }

    #[test]
    fn the_events_of_a_watch_are_read_too() {
        let event: WatchEvent<Raw> =
            serde_json::from_str(&format!(r#"{{"type":"MODIFIED","object":{GOOD}}}"#)).unwrap();
        let WatchEvent::Modified(object) = event else { panic!("{event:?}") };
        assert_eq!(object.meta.resource_version.as_deref(), Some("7"));
    }
}
