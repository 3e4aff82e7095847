//! The kinds, as their definitions describe them.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

/// Fields of our types whose own type is Kubernetes'. Probes look at how many there may be, not into them: what they
/// hold is checked where it is used, and by Kubernetes' own tests.
const KUBERNETES_TYPES: [&str; 16] = [
    "activeRefs",
    "affinity",
    "conditions",
    "env",
    "envFrom",
    "extraEnv",
    "extraVolumeMounts",
    "extraVolumes",
    "imagePullSecrets",
    "lifecycle",
    "podSecurityContext",
    "resources",
    "securityContext",
    "selector",
    "startupProbe",
    "tolerations",
];

/// One kind of the API.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its name, such as `Task`.
    pub name: String,
    /// Its name in paths, such as `tasks`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Its schema.
    pub schema: Value,
    rules: Vec<(String, String)>,
}

impl Kind {
    /// Every kind, in the order of [`api::crds`].
    pub fn all() -> &'static [Self] {
        // Deriving the schemas takes half a second in a debug build.
        static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| api::crds().iter().map(Kind::of).collect());
        &ALL
    }

    /// The kind with this name.
    pub fn named(name: &str) -> anyhow::Result<&'static Self> {
        let found = Self::all().iter().find(|kind| kind.name == name);
        found.ok_or_else(|| anyhow::anyhow!("{name} is no kind of ours"))
    }

    fn of(crd: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut kind = Self {
            name: text(&crd["spec"]["names"]["kind"]),
            plural: text(&crd["spec"]["names"]["plural"]),
            namespaced: crd["spec"]["scope"] == "Namespaced",
            schema: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone(),
            rules: Vec::new(),
        };
        kind.rules = kind.find_rules();
        kind
    }

    /// Path of its objects.
    pub fn path(&self, namespace: &str) -> String {
        let group = format!("/apis/{}/{}", api::names::GROUP, api::names::VERSION);
        if self.namespaced {
            format!("{group}/namespaces/{namespace}/{}", self.plural)
        } else {
            format!("{group}/{}", self.plural)
        }
    }

    /// Every node of the schema that is ours, by its path: `spec.contexts[].git.ref`, `spec.podSpec.labels{}`.
    /// The path of the whole object is empty.
    pub fn nodes(&self) -> BTreeMap<String, &Value> {
        let mut nodes = BTreeMap::from([(String::new(), &self.schema)]);
        for part in ["spec", "status"] {
            walk(&self.schema["properties"][part], part, &mut nodes);
        }
        nodes
    }

    /// Every validation rule: the path of the node that carries it, and its message.
    pub fn rules(&self) -> &[(String, String)] {
        &self.rules
    }

    fn find_rules(&self) -> Vec<(String, String)> {
        let mut rules = Vec::new();
        for (path, schema) in self.nodes() {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                rules.push((path.clone(), rule["message"].as_str().unwrap_or_default().to_owned()));
            }
        }
        rules
    }

    /// `object` with the default of every field that it does not set.
    pub fn with_defaults(&self, object: &Value) -> Value {
        let mut object = object.clone();
        fill(&self.schema, &mut object);
        object
    }
}

/// Whether `schema`, found under the name `field`, is Kubernetes' type. A text of that name is ours.
pub fn is_kubernetes_type(field: &str, schema: &Value) -> bool {
    KUBERNETES_TYPES.contains(&field) && schema["type"] != "string"
}

fn walk<'a>(schema: &'a Value, path: &str, nodes: &mut BTreeMap<String, &'a Value>) {
    nodes.insert(path.to_owned(), schema);
    let field = path.rsplit('.').next().unwrap_or_default();
    if is_kubernetes_type(field, schema) {
        return;
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        walk(child, &format!("{path}.{name}"), nodes);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &format!("{path}[]"), nodes);
    }
    if schema["additionalProperties"].is_object() {
        walk(&schema["additionalProperties"], &format!("{path}{{}}"), nodes);
    }
}

fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, child) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = child.get("default") {
                    fields.entry(name.clone()).or_insert_with(|| default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    fill(child, field);
                }
            }
            if schema["additionalProperties"].is_object() {
                fields.values_mut().for_each(|field| fill(&schema["additionalProperties"], field));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(&schema["items"], item)),
        _ => {}
    }
}
