//! Normalizes objects of built-in kinds as a round trip through Go types does.

use serde_json::{Map, Value};
use units::Quantity;

use super::node::{Schema, Type};

/// Strings that are serialized even if they are empty, because Go has a pointer.
const KEPT_TEXTS: [&str; 8] = [
    "storageClassName",
    "type",
    "name",
    "namespace",
    "apiGroup",
    "volumeAttributesClassName",
    "service",
    "holderIdentity",
];

/// Numbers that are omitted if they are zero.
const OMITTED_ZEROS: [&str; 8] = [
    "initialDelaySeconds",
    "minReadySeconds",
    "hostPort",
    "nodePort",
    "healthCheckNodePort",
    "observedGeneration",
    "generation",
    "count",
];

/// Booleans that are omitted if they are false.
const OMITTED_FALSE: [&str; 10] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "publishNotReadyAddresses",
    "paused",
    "unschedulable",
];

/// Times that are serialized as null if they are unset, by type.
const KEPT_NULLS: [(&str, [&str; 2]); 1] = [("v1.PodCondition", ["lastProbeTime", "lastTransitionTime"])];

impl Schema {
    /// Normalizes an object of a built-in kind as if Kubernetes had read and written it: without meaningless nulls and
    /// empty values, with canonical quantities, and with an empty object for every struct that is always present
    /// (`resources: {}`).
    pub fn normalize(&self, object: &mut Value) {
        self.omit_empty(object);
        self.complete(object);
    }

    fn omit_empty(&self, value: &mut Value) {
        if self.preserve_unknown {
            return;
        }
        if self.type_name.as_deref() == Some("resource.Quantity") {
            normalize_quantity(value);
            return;
        }
        match value {
            Value::Object(fields) => fields.retain(|name, field| {
                let Some(schema) = self.field(name) else { return true };
                if field.is_null() {
                    return false;
                }
                schema.omit_empty(field);
                self.properties.is_empty() || self.required.contains(name) || !schema.is_omitted(name, field)
            }),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.omit_empty(item);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether Go omits a field with this value.
    fn is_omitted(&self, name: &str, value: &Value) -> bool {
        match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty() && self.additional.is_some(),
            Value::String(text) => text.is_empty() && !KEPT_TEXTS.contains(&name),
            Value::Bool(truth) => !truth && OMITTED_FALSE.contains(&name),
            Value::Number(number) => number.as_i64() == Some(0) && OMITTED_ZEROS.contains(&name),
            Value::Null => true,
        }
    }

    /// Adds the structs that are always present.
    fn complete(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    let always = schema.kind == Some(Type::Object)
                        && !schema.properties.is_empty()
                        && schema.default.as_ref().is_some_and(|default| default == &Value::Object(Map::new()));
                    if always && !fields.contains_key(name) {
                        fields.insert(name.clone(), Value::Object(Map::new()));
                    }
                }
                let named = |(name, _): &&(&str, _)| self.type_name.as_deref() == Some(*name);
                for time in KEPT_NULLS.iter().find(named).map(|(_, times)| times).into_iter().flatten() {
                    fields.entry(*time).or_insert(Value::Null);
                }
                for (name, field) in fields {
                    if let Some(schema) = self.field(name).filter(|_| field.is_object() || field.is_array()) {
                        schema.complete(field);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.complete(item);
                    }
                }
            }
            _ => {}
        }
    }
}

fn normalize_quantity(value: &mut Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Ok(quantity) = text.parse::<Quantity>() {
        *value = Value::String(quantity.to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::builtin;

    #[test]
    fn an_object_is_settled_as_if_kubernetes_had_written_it() {
        let pod = builtin::schema("v1", "Pod").expect("Pod");
        let mut object = json!({
            "metadata": { "name": "a", "labels": {}, "annotations": null },
            "spec": { "containers": [{ "name": "a", "args": [], "tty": false, "workingDir": "",
                "resources": { "limits": { "cpu": 0.5, "memory": "1024Mi" } } }],
                "volumes": [{ "name": "v", "emptyDir": {} }], "hostNetwork": false, "nodeSelector": {} },
        });
        object["status"] = json!({ "conditions": [{ "type": "Ready", "status": "True", "lastProbeTime": null }] });
        pod.normalize(&mut object);
        assert_eq!(
            object,
            json!({
                "metadata": { "name": "a" },
                "spec": { "containers": [{ "name": "a", "resources": { "limits": { "cpu": "500m", "memory": "1Gi" } } }],
                    "volumes": [{ "name": "v", "emptyDir": {} }] },
                "status": { "conditions": [
                    { "type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null },
                ] },
            })
        );
    }
}
