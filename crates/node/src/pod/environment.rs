//! The environment of a container.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource};

use crate::pod::{
    downward_api::{DownwardApi, DownwardApiError},
    expand::expand,
    objects::Objects,
};

/// Errors of the environment; the messages match those of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvError {
    #[error("configmap {0:?} not found")]
    ConfigMap(String),
    #[error("secret {0:?} not found")]
    Secret(String),
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    Key { kind: &'static str, namespace: String, name: String, key: String },
    #[error(transparent)]
    Fact(#[from] DownwardApiError),
}

/// Variables in the order of definition; a later one of the same name wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Variables set by the container.
    pub(crate) own: Vec<(String, String)>,
}

impl Environment {
    /// Resolves the variables of a container.
    pub(crate) fn of(container: &Container, facts: &DownwardApi<'_>, objects: &Objects) -> Result<Self, EnvError> {
        let mut environment = Self::default();
        for source in container.env_from.iter().flatten() {
            environment.take_all(source, objects)?;
        }
        // Values can refer to earlier variables of `env`, but not to those of `envFrom`.
        let mut seen: HashMap<String, String> = HashMap::new();
        for variable in container.env.iter().flatten() {
            let value = match (&variable.value, &variable.value_from) {
                (Some(text), _) if !text.is_empty() => Some(expand(text, |name| seen.get(name).map(String::as_str))),
                (_, Some(source)) => value_from(source, container, facts, objects)?,
                _ => Some(String::new()),
            };
            if let Some(value) = value {
                seen.insert(variable.name.clone(), value.clone());
                environment.set(&variable.name, value);
            }
        }
        Ok(environment)
    }

    fn set(&mut self, name: &str, value: String) {
        match self.own.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.own.push((name.to_owned(), value)),
        }
    }

    fn take_all(&mut self, source: &EnvFromSource, objects: &Objects) -> Result<(), EnvError> {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let (values, optional, missing) = if let Some(reference) = &source.config_map_ref {
            let missing = EnvError::ConfigMap(reference.name.clone());
            (objects.config_map(&reference.name), reference.optional, missing)
        } else if let Some(reference) = &source.secret_ref {
            (objects.secret(&reference.name), reference.optional, EnvError::Secret(reference.name.clone()))
        } else {
            return Ok(());
        };
        let Some(values) = values else {
            return if optional.unwrap_or_default() { Ok(()) } else { Err(missing) };
        };
        for (key, value) in values {
            let name = format!("{prefix}{key}");
            // An equals sign is not valid in a variable name.
            if !name.contains('=') {
                self.set(&name, String::from_utf8_lossy(value).into_owned());
            }
        }
        Ok(())
    }

    /// All variables of the process: those of the image and the node, then those of the container.
    pub(crate) fn complete(&self, below: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
        let mut all = Self { own: below.into_iter().collect() };
        for (name, value) in &self.own {
            all.set(name, value.clone());
        }
        all.own
    }

    /// Expands `$(NAME)` in a command.
    pub(crate) fn expand(&self, command: &[String]) -> Vec<String> {
        let lookup = |name: &str| self.own.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        command.iter().map(|word| expand(word, lookup)).collect()
    }
}

/// `None` if the source is optional and missing: then the variable is not set.
fn value_from(
    source: &EnvVarSource,
    container: &Container,
    facts: &DownwardApi<'_>,
    objects: &Objects,
) -> Result<Option<String>, EnvError> {
    if let Some(selector) = &source.field_ref {
        return Ok(Some(facts.field(selector)?));
    }
    if let Some(selector) = &source.resource_field_ref {
        return Ok(Some(facts.resource(Some(container), selector)?));
    }
    let (kind, values, name, key, optional, missing) = if let Some(selector) = &source.config_map_key_ref {
        let missing = EnvError::ConfigMap(selector.name.clone());
        ("ConfigMap", objects.config_map(&selector.name), &selector.name, &selector.key, selector.optional, missing)
    } else if let Some(selector) = &source.secret_key_ref {
        let missing = EnvError::Secret(selector.name.clone());
        ("Secret", objects.secret(&selector.name), &selector.name, &selector.key, selector.optional, missing)
    } else {
        return Ok(Some(String::new()));
    };
    let optional = optional.unwrap_or_default();
    match values {
        None if optional => Ok(None),
        None => Err(missing),
        Some(values) => match values.get(key.as_str()) {
            Some(value) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
            None if optional => Ok(None),
            None => {
                Err(EnvError::Key { kind, namespace: objects.namespace.clone(), name: name.clone(), key: key.clone() })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::pod::downward_api::tests::facts;

    fn objects() -> Objects {
        let map = json!({"data": {"A": "from map", "greeting": "hello"}});
        let secret = json!({"data": {"password": "c2VjcmV0"}});
        Objects {
            namespace: "n".into(),
            config_maps: [("map".to_owned(), serde_json::from_value(map).unwrap())].into(),
            secrets: [("login".to_owned(), serde_json::from_value(secret).unwrap())].into(),
        }
    }

    fn environment(container: Value) -> Result<Environment, String> {
        let container = serde_json::from_value(container).unwrap();
        let pod = Pod::default();
        Environment::of(&container, &facts(&pod), &objects()).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check(container: Value, expected: &[(&str, &str)]) {
        let own: Vec<_> = expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(environment(container).unwrap().own, own);
    }

    #[test]
    fn values_see_the_variables_in_front_of_them_and_own_ones_win() {
        check(
            json!({"name": "c",
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "map"}}, {"configMapRef": {"name": "map"}}],
                "env": [{"name": "A", "value": "mine"}, {"name": "B", "value": "$(A) $(C) $$(A) $(greeting)"},
                        {"name": "C", "value": "$(B)"}]}),
            &[
                ("P_A", "from map"),
                ("P_greeting", "hello"),
                ("A", "mine"),
                ("greeting", "hello"),
                ("B", "mine $(C) $(A) $(greeting)"),
                ("C", "mine $(C) $(A) $(greeting)"),
            ],
        );
    }

    #[test]
    fn values_come_from_objects_and_from_the_pod() {
        check(
            json!({"name": "c", "env": [
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
                {"name": "NO", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "x", "optional": true}}},
                {"name": "URL", "value": "http://$(IP)/$(PW)$(NO)"}]}),
            &[("IP", "127.80.0.7"), ("PW", "secret"), ("URL", "http://127.80.0.7/secret$(NO)")],
        );
    }

    #[test]
    fn missing_sources_are_errors() {
        let check = |env: Value, expected: &str| {
            assert_eq!(
                environment(json!({"name": "c", "env": [{"name": "X", "valueFrom": env}]})).unwrap_err(),
                expected
            );
        };
        check(json!({"secretKeyRef": {"name": "gone", "key": "k"}}), "secret \"gone\" not found");
        check(json!({"configMapKeyRef": {"name": "gone", "key": "k"}}), "configmap \"gone\" not found");
        check(json!({"secretKeyRef": {"name": "login", "key": "k"}}), "couldn't find key k in Secret n/login");
    }

    #[test]
    fn commands_see_every_variable_of_the_container() {
        let environment = environment(json!({"name": "c", "envFrom": [{"configMapRef": {"name": "map"}}]})).unwrap();
        let command = ["$(greeting)".to_owned(), "$(PATH)".to_owned()];
        assert_eq!(environment.expand(&command), ["hello", "$(PATH)"]);
        let all = environment.complete([("PATH".into(), "/bin".into()), ("A".into(), "image".into())]);
        assert_eq!(all[1], ("A".into(), "from map".into()));
    }
}
