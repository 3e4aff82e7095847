//! Discovery of kinds, in the three formats of Kubernetes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::representation::aggregated_discovery;
use super::response::{ApiResponse, json as json_answer};
use crate::kinds::{Registry, Resource};

/// The response to a path below `/api` or `/apis`, if it exists.
pub(crate) fn discovery(registry: &Registry, path: &str, accept: Option<&str>) -> Option<ApiResponse> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if let (["api" | "apis"], Some(version)) = (segments.as_slice(), aggregated_discovery(accept)) {
        let core = segments == ["api"];
        return Some(aggregated(registry, core, version));
    }
    let document = match segments.as_slice() {
        ["api"] => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
        }),
        ["apis"] => {
            let groups = registry.groups().iter().filter(|group| !group.name.is_empty());
            let groups: Vec<Value> = groups.map(|group| api_group(&group.name, &group.versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["apis", name] => {
            let group = registry.groups().iter().find(|group| group.name == *name)?;
            let mut document = json!({"kind": "APIGroup", "apiVersion": "v1"});
            if let (Some(document), Value::Object(group)) =
                (document.as_object_mut(), api_group(&group.name, &group.versions))
            {
                document.extend(group);
            }
            document
        }
        ["api", version] => resource_list(registry, "", version)?,
        ["apis", group, version] => resource_list(registry, group, version)?,
        _ => return None,
    };
    Some(json_answer(StatusCode::OK, document.to_string()))
}

fn api_group(name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = registry.of_version(group, version).peekable();
    let group_version = resources.peek()?.api_version();
    let entries: Vec<Value> = resources.flat_map(|resource| legacy_entries(resource)).collect();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": entries}))
}

fn legacy_entries(resource: &Resource) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    if resource.verbs.contains(&"list") {
        // Clients use it to detect that two names refer to the same objects.
        let kind = format!("{}/{}/{}", resource.group, resource.version, resource.kind);
        let hash = Sha256::digest(kind);
        entry["storageVersionHash"] = json!(BASE64_STANDARD.encode(hash.get(..8).unwrap_or_default()));
    }
    let parts = resource.subresources.iter().map(|part| {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, part.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": part.kind,
            "verbs": part.verbs,
        });
        if !part.group.is_empty() {
            entry["group"] = json!(part.group);
            entry["version"] = json!(part.version);
        }
        entry
    });
    std::iter::once(entry).chain(parts).collect()
}

fn aggregated(registry: &Registry, core: bool, discovery_version: &'static str) -> ApiResponse {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        registry.of_version(&group.name, version).map(|resource| aggregated_entry(resource)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if core {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": group.name, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let document = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{discovery_version}"),
        "metadata": {},
        "items": items,
    });
    let mut response = json_answer(StatusCode::OK, document.to_string());
    let content_type = if discovery_version == "v2" {
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    } else {
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn aggregated_entry(resource: &Resource) -> Value {
    let own = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": own,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let parts = resource.subresources.iter().map(|part| {
        let (group, version) =
            if part.version.is_empty() { (&*resource.group, &*resource.version) } else { (part.group, part.version) };
        json!({
            "subresource": part.name,
            "responseKind": {"group": group, "version": version, "kind": part.kind},
            "verbs": part.verbs,
        })
    });
    let parts: Vec<Value> = parts.collect();
    if !parts.is_empty() {
        entry["subresources"] = json!(parts);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use http_body_util::BodyExt as _;

    async fn ask(path: &str, accept: &str) -> Value {
        let registry = Registry::read(&Store::in_memory().unwrap(), None);
        let answer = discovery(&registry, path, Some(accept)).unwrap();
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    #[tokio::test]
    async fn every_form_of_discovery_names_the_same_kinds() {
        let legacy = ask("/api/v1", "application/json").await;
        let aggregated = ask("/api", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").await;
        let kinds = legacy["resources"].as_array().unwrap();
        let plain = kinds.iter().filter(|entry| !entry["name"].as_str().unwrap().contains('/')).count();
        assert_eq!(aggregated["items"][0]["versions"][0]["resources"].as_array().unwrap().len(), plain);
        assert!(kinds.iter().any(|entry| entry["name"] == "pods/log" && entry["verbs"] == json!(["get"])));
        let groups = ask("/apis", "application/json").await;
        assert!(groups["groups"].as_array().unwrap().iter().any(|group| group["name"] == "apps"));
        assert_eq!(ask("/apis/apps", "*/*").await["preferredVersion"]["groupVersion"], "apps/v1");
    }
}
