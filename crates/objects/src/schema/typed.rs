//! What happens to an object of a built-in kind when Kubernetes reads it into a type of Go and writes it again.

use serde_json::{Map, Value};

use super::node::{Schema, Type};
use super::quantity;

/// Texts that are written even if they are empty, because Go keeps a pointer to them.
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

/// Numbers that are not written if they are zero.
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

/// Truths that are not written if they are false.
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

/// Times that are written as null if they are unset, by the type that has them.
const KEPT_NULLS: [(&str, [&str; 2]); 1] = [("v1.PodCondition", ["lastProbeTime", "lastTransitionTime"])];

impl Schema {
    /// Makes an object of a built-in kind look as if it had been read and written by Kubernetes: without nulls and empty
    /// values that mean nothing, quantities in their one form, and with an empty object for every part that is always
    /// there (`resources: {}`).
    pub fn settle(&self, object: &mut Value) {
        self.tidy(object);
        self.complete(object);
    }

    fn tidy(&self, value: &mut Value) {
        if self.preserve_unknown {
            return;
        }
        if self.type_name.as_deref() == Some("resource.Quantity") {
            tidy_quantity(value);
            return;
        }
        match value {
            Value::Object(fields) => fields.retain(|name, field| {
                let Some(schema) = self.field(name) else { return true };
                if field.is_null() {
                    return false;
                }
                schema.tidy(field);
                self.properties.is_empty() || self.required.contains(name) || !schema.is_omitted(name, field)
            }),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.tidy(item);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether Go leaves a field with this value out.
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

    /// Adds the parts that are always there.
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

fn tidy_quantity(value: &mut Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Some(form) = quantity::canonical(&text) {
        *value = Value::String(form);
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
        pod.settle(&mut object);
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
