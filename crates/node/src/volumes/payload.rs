//! The files of volumes that are generated from objects: configMap, secret, downwardAPI and projected.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Volume};

use crate::pod::{
    downward_api::{DownwardApi, DownwardApiError},
    objects::Objects,
};

/// Default mode of files.
const MODE: u32 = 0o644;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
}

/// The files of a volume by path.
pub(crate) type Payload = BTreeMap<String, File>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PayloadError {
    #[error("configmap {0:?} not found")]
    ConfigMap(String),
    #[error("secret {0:?} not found")]
    Secret(String),
    #[error("references non-existent config key: {0}")]
    Key(String),
    #[error("the path {0:?} leaves the volume")]
    Path(String),
    #[error(transparent)]
    Fact(#[from] DownwardApiError),
    #[error("{0} in projected volumes is not supported on this node")]
    Unavailable(&'static str),
}

/// The files of `volume`; `None` if it is of another type. `tokens` are the requested tokens by path.
pub(crate) fn payload(
    volume: &Volume,
    facts: &DownwardApi<'_>,
    objects: &Objects,
    tokens: &BTreeMap<String, String>,
) -> Result<Option<Payload>, PayloadError> {
    let mut files = Payload::new();
    if let Some(source) = &volume.config_map {
        let mode = mode(source.default_mode);
        let missing = PayloadError::ConfigMap(source.name.clone());
        keys(&mut files, objects.config_map(&source.name), source.items.as_deref(), mode, source.optional, missing)?;
    } else if let Some(source) = &volume.secret {
        let name = source.secret_name.as_deref().unwrap_or_default();
        let missing = PayloadError::Secret(name.to_owned());
        let mode = mode(source.default_mode);
        keys(&mut files, objects.secret(name), source.items.as_deref(), mode, source.optional, missing)?;
    } else if let Some(source) = &volume.downward_api {
        downward(&mut files, source.items.as_deref().unwrap_or_default(), mode(source.default_mode), facts)?;
    } else if let Some(projected) = &volume.projected {
        let mode = mode(projected.default_mode);
        for source in projected.sources.iter().flatten() {
            if let Some(source) = &source.config_map {
                let values = objects.config_map(&source.name);
                let missing = PayloadError::ConfigMap(source.name.clone());
                keys(&mut files, values, source.items.as_deref(), mode, source.optional, missing)?;
            } else if let Some(source) = &source.secret {
                let missing = PayloadError::Secret(source.name.clone());
                let values = objects.secret(&source.name);
                keys(&mut files, values, source.items.as_deref(), mode, source.optional, missing)?;
            } else if let Some(source) = &source.downward_api {
                downward(&mut files, source.items.as_deref().unwrap_or_default(), mode, facts)?;
            } else if let Some(source) = &source.service_account_token {
                let token = tokens.get(&source.path).cloned().unwrap_or_default();
                put(&mut files, &source.path, token.into_bytes(), mode)?;
            } else if source.cluster_trust_bundle.is_some() {
                return Err(PayloadError::Unavailable("clusterTrustBundle"));
            }
        }
    } else {
        return Ok(None);
    }
    Ok(Some(files))
}

fn mode(mode: Option<i32>) -> u32 {
    mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(MODE)
}

fn keys(
    files: &mut Payload,
    values: Option<BTreeMap<&str, &[u8]>>,
    items: Option<&[KeyToPath]>,
    default_mode: u32,
    optional: Option<bool>,
    missing: PayloadError,
) -> Result<(), PayloadError> {
    let optional = optional.unwrap_or_default();
    let Some(values) = values else {
        return if optional { Ok(()) } else { Err(missing) };
    };
    match items.filter(|items| !items.is_empty()) {
        None => {
            for (key, value) in values {
                put(files, key, value.to_vec(), default_mode)?;
            }
        }
        Some(items) => {
            for item in items {
                match values.get(item.key.as_str()) {
                    Some(value) => {
                        let mode = item.mode.map_or(default_mode, |own| mode(Some(own)));
                        put(files, &item.path, value.to_vec(), mode)?;
                    }
                    None if optional => {}
                    None => return Err(PayloadError::Key(item.key.clone())),
                }
            }
        }
    }
    Ok(())
}

fn downward(
    files: &mut Payload,
    items: &[DownwardAPIVolumeFile],
    default_mode: u32,
    facts: &DownwardApi<'_>,
) -> Result<(), PayloadError> {
    for item in items {
        let content = match (&item.field_ref, &item.resource_field_ref) {
            (Some(selector), _) => facts.field(selector)?,
            (None, Some(selector)) => facts.resource(None, selector)?,
            (None, None) => String::new(),
        };
        let mode = item.mode.map_or(default_mode, |own| mode(Some(own)));
        put(files, &item.path, content.into_bytes(), mode)?;
    }
    Ok(())
}

fn put(files: &mut Payload, path: &str, content: Vec<u8>, mode: u32) -> Result<(), PayloadError> {
    let fine = |part: &str| !part.is_empty() && part != "." && part != "..";
    if !path.split('/').all(fine) || path.starts_with("..") {
        return Err(PayloadError::Path(path.to_owned()));
    }
    files.insert(path.to_owned(), File { content, mode });
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::downward_api::tests::facts;

    fn files(volume: Value) -> Result<String, String> {
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "p", "annotations": {"a": "note"}}})).unwrap();
        let map = json!({"data": {"one": "1", "two": "2"}, "binaryData": {"raw": "AAE="}});
        let secret = json!({"data": {"key": "c2VjcmV0"}});
        let objects = Objects {
            namespace: "n".into(),
            config_maps: [("map".to_owned(), serde_json::from_value(map).unwrap())].into(),
            secrets: [("login".to_owned(), serde_json::from_value(secret).unwrap())].into(),
        };
        let tokens = [("token".to_owned(), "t".to_owned())].into();
        let payload = payload(&volume, &facts(&pod), &objects, &tokens).map_err(|error| error.to_string())?;
        let files = payload.ok_or("another kind")?;
        let show = |(path, file): (&String, &File)| {
            format!("{path}={} {:o}", String::from_utf8_lossy(&file.content).escape_debug(), file.mode)
        };
        Ok(files.iter().map(show).collect::<Vec<_>>().join(", "))
    }

    #[track_caller]
    fn check(volume: Value, expected: &str) {
        assert_eq!(files(volume).unwrap_or_else(|error| error), expected);
    }

    #[test]
    fn each_kind_of_volume_shows_its_files() {
        check(json!({"name": "v", "configMap": {"name": "map"}}), "one=1 644, raw=\\0\\u{1} 644, two=2 644");
        check(
            json!({"name": "v", "configMap": {"name": "map", "items": [{"key": "one", "path": "dir/1", "mode": 384}]}}),
            "dir/1=1 600",
        );
        check(json!({"name": "v", "secret": {"secretName": "login", "defaultMode": 256}}), "key=secret 400");
        check(
            json!({"name": "v", "downwardAPI": {"items": [
                {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['a']"}}]}}),
            "note=note 644",
        );
        check(
            json!({"name": "v", "projected": {"sources": [
                {"configMap": {"name": "map", "items": [{"key": "two", "path": "two"}]}},
                {"secret": {"name": "gone", "optional": true}},
                {"serviceAccountToken": {"path": "token"}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}),
            "name=p 644, token=t 644, two=2 644",
        );
        check(json!({"name": "v", "emptyDir": {}}), "another kind");
    }

    #[test]
    fn missing_objects_are_errors_unless_optional() {
        check(json!({"name": "v", "configMap": {"name": "gone"}}), "configmap \"gone\" not found");
        check(json!({"name": "v", "configMap": {"name": "gone", "optional": true}}), "");
        check(json!({"name": "v", "secret": {"secretName": "gone"}}), "secret \"gone\" not found");
        let item = json!([{"key": "none", "path": "x"}]);
        check(
            json!({"name": "v", "configMap": {"name": "map", "items": item}}),
            "references non-existent config key: none",
        );
    }

    #[test]
    fn no_path_leads_out_of_the_volume() {
        for path in ["../x", "/x", "a/../x", "..data", "a//b"] {
            let item = json!([{"key": "one", "path": path}]);
            let error = files(json!({"name": "v", "configMap": {"name": "map", "items": item}})).unwrap_err();
            assert!(error.contains("leaves the volume"), "{path}: {error}");
        }
    }
}
