//! The table of built-in kinds.

use std::sync::Arc;

use super::{ALL_VERBS, Resource, Subresource};
use crate::status_error::qualified;

const CREATE: &[&str] = &["create"];
const GET: &[&str] = &["get"];
const OPEN: &[&str] = &["create", "get"];
const PART: &[&str] = &["get", "patch", "update"];
const FINALIZE: &[&str] = &["update"];

struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    verbs: &'static [&'static str],
    /// Subresources by name; see [`subresource`].
    parts: &'static [&'static str],
}

const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Row {
    Row { group, version, kind, plural, short: &[], categories: &[], namespaced, verbs: ALL_VERBS, parts: &[] }
}

impl Row {
    const fn short(mut self, short: &'static [&'static str]) -> Self {
        self.short = short;
        self
    }

    const fn parts(mut self, parts: &'static [&'static str]) -> Self {
        self.parts = parts;
        self
    }

    /// Shown by `kubectl get all`.
    const fn in_all(mut self) -> Self {
        self.categories = &["all"];
        self
    }

    const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }
}

const NAMESPACED: bool = true;
const CLUSTER: bool = false;
const RBAC: &str = "rbac.authorization.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

static TABLE: &[Row] = &[
    row("", "v1", "Binding", "bindings", NAMESPACED).verbs(CREATE),
    row("", "v1", "ConfigMap", "configmaps", NAMESPACED).short(&["cm"]),
    row("", "v1", "Endpoints", "endpoints", NAMESPACED).short(&["ep"]),
    row("", "v1", "Event", "events", NAMESPACED).short(&["ev"]),
    row("", "v1", "Namespace", "namespaces", CLUSTER)
        .short(&["ns"])
        .verbs(NAMESPACE_VERBS)
        .parts(&["finalize", "status"]),
    row("", "v1", "Node", "nodes", CLUSTER).short(&["no"]).parts(&["status"]),
    row("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", NAMESPACED).short(&["pvc"]).parts(&["status"]),
    row("", "v1", "PersistentVolume", "persistentvolumes", CLUSTER).short(&["pv"]).parts(&["status"]),
    row("", "v1", "Pod", "pods", NAMESPACED).short(&["po"]).in_all().parts(&[
        "attach",
        "binding",
        "eviction",
        "exec",
        "log",
        "portforward",
        "status",
    ]),
    row("", "v1", "Secret", "secrets", NAMESPACED),
    row("", "v1", "ServiceAccount", "serviceaccounts", NAMESPACED).short(&["sa"]).parts(&["token"]),
    row("", "v1", "Service", "services", NAMESPACED).short(&["svc"]).in_all().parts(&["status"]),
    row("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", CLUSTER)
        .short(&["crd", "crds"])
        .parts(&["status"]),
    row("apps", "v1", "Deployment", "deployments", NAMESPACED).short(&["deploy"]).in_all().parts(&["scale", "status"]),
    row("apps", "v1", "ReplicaSet", "replicasets", NAMESPACED).short(&["rs"]).in_all().parts(&["scale", "status"]),
    row(AUTHENTICATION, "v1", "SelfSubjectReview", "selfsubjectreviews", CLUSTER).verbs(CREATE),
    row(AUTHENTICATION, "v1", "TokenReview", "tokenreviews", CLUSTER).verbs(CREATE),
    row(AUTHORIZATION, "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", NAMESPACED).verbs(CREATE),
    row(AUTHORIZATION, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", CLUSTER).verbs(CREATE),
    row(AUTHORIZATION, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", CLUSTER).verbs(CREATE),
    row(AUTHORIZATION, "v1", "SubjectAccessReview", "subjectaccessreviews", CLUSTER).verbs(CREATE),
    row("coordination.k8s.io", "v1", "Lease", "leases", NAMESPACED),
    row("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", NAMESPACED),
    row("events.k8s.io", "v1", "Event", "events", NAMESPACED).short(&["ev"]),
    row("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", NAMESPACED).short(&["netpol"]),
    row("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", NAMESPACED).short(&["pdb"]).parts(&["status"]),
    row(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", CLUSTER),
    row(RBAC, "v1", "ClusterRole", "clusterroles", CLUSTER),
    row(RBAC, "v1", "RoleBinding", "rolebindings", NAMESPACED),
    row(RBAC, "v1", "Role", "roles", NAMESPACED),
    row("storage.k8s.io", "v1", "StorageClass", "storageclasses", CLUSTER).short(&["sc"]),
];

fn subresource(name: &'static str, kind: &str) -> Subresource {
    let own = |kind: &str, verbs| Subresource { name, group: "", version: "", kind: kind.to_owned(), verbs };
    let foreign = |group, kind: &str, verbs| Subresource { name, group, version: "v1", kind: kind.to_owned(), verbs };
    match name {
        "scale" => foreign("autoscaling", "Scale", PART),
        "token" => foreign(AUTHENTICATION, "TokenRequest", CREATE),
        "eviction" => foreign("policy", "Eviction", CREATE),
        "binding" => own("Binding", CREATE),
        "exec" => own("PodExecOptions", OPEN),
        "attach" => own("PodAttachOptions", OPEN),
        "portforward" => own("PodPortForwardOptions", OPEN),
        "log" => own(kind, GET),
        "finalize" => own(kind, FINALIZE),
        _ => own(kind, PART),
    }
}

pub(super) fn resources() -> Vec<Arc<Resource>> {
    TABLE
        .iter()
        .map(|row| {
            // Both groups of Events share their storage.
            let storage_key =
                if row.plural == "events" { "events".to_owned() } else { qualified(row.plural, row.group) };
            let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
            Arc::new(Resource {
                group: row.group.to_owned(),
                version: row.version.to_owned(),
                kind: row.kind.to_owned(),
                list_kind: format!("{}List", row.kind),
                plural: row.plural.to_owned(),
                singular: row.kind.to_lowercase(),
                short_names: owned(row.short),
                categories: owned(row.categories),
                namespaced: row.namespaced,
                storage_key: Arc::from(storage_key),
                verbs: row.verbs,
                subresources: row.parts.iter().map(|&name| subresource(name, row.kind)).collect(),
                scale: None,
                custom: None,
            })
        })
        .collect()
}
