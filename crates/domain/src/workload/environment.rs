//! Environment variables of the containers that we build.
//!
//! Kubernetes replaces `$(NAME)` and `$$` in values. Values of users must arrive unchanged, so `var` escapes them; only
//! `expanded` allows references.

use std::collections::BTreeSet;

use api::{kinds::config::OpenTelemetry, refs::SecretKeyRef, workload::Proxy};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, SecretKeySelector};

use crate::{
    contract::{environment as variables, paths},
    platform::{Addressing, Platform},
};

/// A variable with exactly this value.
pub(crate) fn var(name: &str, value: impl AsRef<str>) -> EnvVar {
    expanded(name, value.as_ref().replace('$', "$$"))
}

/// A variable whose value may refer to earlier ones as `$(NAME)`.
pub(crate) fn expanded(name: &str, value: impl Into<String>) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.into()), value_from: None }
}

/// A variable from a key of a Secret.
pub(crate) fn secret(name: &str, reference: &SecretKeyRef) -> EnvVar {
    from_secret(name, &reference.name, &reference.key, None)
}

/// A variable from a key of a Secret that may be missing.
pub(crate) fn optional_secret(name: &str, secret: &str, key: &str) -> EnvVar {
    from_secret(name, secret, key, Some(true))
}

fn from_secret(name: &str, secret: &str, key: &str, optional: Option<bool>) -> EnvVar {
    let selector = SecretKeySelector { name: secret.to_owned(), key: key.to_owned(), optional };
    let value_from = Some(EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() });
    EnvVar { name: name.to_owned(), value: None, value_from }
}

/// A variable from a field of the Pod.
pub(crate) fn field(name: &str, path: &str) -> EnvVar {
    let selector = ObjectFieldSelector { field_path: path.to_owned(), api_version: None };
    let value_from = Some(EnvVarSource { field_ref: Some(selector), ..EnvVarSource::default() });
    EnvVar { name: name.to_owned(), value: None, value_from }
}

/// Keeps the last variable of each name. Server-side apply refuses duplicates.
pub(crate) fn settle(env: Vec<EnvVar>) -> Vec<EnvVar> {
    let mut seen = BTreeSet::new();
    let mut kept: Vec<EnvVar> = env.into_iter().rev().filter(|var| seen.insert(var.name.clone())).collect();
    kept.reverse();
    kept
}

/// Home and shell of every container.
pub(crate) fn home() -> Vec<EnvVar> {
    vec![var(variables::HOME, paths::HOME), var(variables::SHELL, paths::SHELL)]
}

/// Certificates of a `caBundle` for our own helpers.
pub(crate) fn authorities() -> Vec<EnvVar> {
    vec![var(variables::CUSTOM_CA_CERT_PATH, paths::CA_FILE)]
}

/// Certificates of a `caBundle` for programs in the agent's container. NODE_EXTRA_CA_CERTS adds to the built-in
/// certificates of OpenCode; the other variables replace those of their program, so they name the combined file.
pub(crate) fn agent_authorities() -> Vec<EnvVar> {
    let replacing = [
        variables::SSL_CERT_FILE,
        variables::GIT_SSL_CAINFO,
        variables::NPM_CONFIG_CAFILE,
        variables::REQUESTS_CA_BUNDLE,
        variables::CURL_CA_BUNDLE,
    ];
    let mut env =
        vec![var(variables::CUSTOM_CA_CERT_PATH, paths::CA_FILE), var(variables::NODE_EXTRA_CA_CERTS, paths::CA_FILE)];
    env.extend(replacing.iter().map(|name| var(name, paths::COMBINED_CA_FILE)));
    env
}

/// Proxy variables in upper and lower case, because programs disagree. Traffic inside the cluster bypasses the proxy.
pub(crate) fn proxy(proxy: Option<&Proxy>, platform: &Platform, also_direct: Option<&str>) -> Vec<EnvVar> {
    let Some(proxy) = proxy else { return Vec::new() };
    let mut env = Vec::new();
    let mut both = |name: &str, value: &str| {
        env.push(var(name, value));
        env.push(var(&name.to_ascii_lowercase(), value));
    };
    let set = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
    if let Some(http) = set(&proxy.http_proxy) {
        both(variables::HTTP_PROXY, &http);
    }
    if let Some(https) = set(&proxy.https_proxy) {
        both(variables::HTTPS_PROXY, &https);
    }
    both(variables::NO_PROXY, &direct_hosts(proxy, platform, also_direct));
    env
}

/// Hosts that are reached without the proxy, separated by commas: those of the user, and those inside the cluster.
pub fn direct_hosts(proxy: &Proxy, platform: &Platform, also_direct: Option<&str>) -> String {
    let mut direct: Vec<String> = proxy
        .no_proxy
        .iter()
        .flat_map(|list| list.split(',').map(|host| host.trim().to_owned()))
        .filter(|host| !host.is_empty())
        .collect();
    let mut always = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), ".svc".to_owned()];
    always.push(format!(".{}", platform.cluster_domain));
    if platform.addressing == Addressing::Local {
        always.push("127.0.0.0/8".to_owned());
    }
    always.extend(also_direct.map(str::to_owned));
    for host in always {
        let covered = |entry: &String| *entry == host || (entry.starts_with('.') && host.ends_with(entry.as_str()));
        if !direct.iter().any(covered) {
            direct.push(host);
        }
    }
    direct.join(",")
}

/// Attributes of traces.
pub(crate) struct Traced<'a> {
    pub namespace: &'a str,
    pub task: Option<&'a str>,
    pub agent: Option<&'a str>,
    /// `None` if Kubernetes generates the name; then the downward API provides it.
    pub pod: Option<&'a str>,
}

/// Export of traces.
pub(crate) fn telemetry(settings: Option<&OpenTelemetry>, traced: &Traced<'_>) -> Vec<EnvVar> {
    let Some(settings) = settings.filter(|settings| settings.enabled) else { return Vec::new() };
    let Some(endpoint) = settings.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) else {
        return Vec::new();
    };
    let mut env = vec![var(variables::OTEL_EXPORTER_OTLP_ENDPOINT, endpoint)];
    let mut headers = Vec::new();
    let mut taken = BTreeSet::new();
    for (name, header) in settings.headers.iter().flatten() {
        if let Some(value) = &header.value {
            headers.push(format!("{name}={}", value.replace('$', "$$")));
        } else if let Some(source) = &header.value_from {
            let mut helper = format!("{}{}", variables::OTEL_HEADER, variable_name(name));
            while !taken.insert(helper.clone()) {
                helper.push('_');
            }
            env.push(secret(&helper, &source.secret_key_ref));
            headers.push(format!("{name}=$({helper})"));
        }
    }
    if !headers.is_empty() {
        env.push(expanded(variables::OTEL_EXPORTER_OTLP_HEADERS, headers.join(",")));
    }
    let pod = traced.pod.map_or_else(|| format!("$({})", variables::OTEL_POD_NAME), attribute_value);
    if traced.pod.is_none() {
        env.push(field(variables::OTEL_POD_NAME, "metadata.name"));
    }
    let mut attributes = Vec::new();
    let mut attribute = |key: &str, value: String| attributes.push(format!("{key}={value}"));
    if let Some(task) = traced.task {
        attribute("kubeopencode.task.name", attribute_value(task));
    }
    attribute("kubeopencode.task.namespace", attribute_value(traced.namespace));
    if let Some(agent) = traced.agent {
        attribute("kubeopencode.agent.name", attribute_value(agent));
    }
    attribute("k8s.namespace.name", attribute_value(traced.namespace));
    attribute("k8s.pod.name", pod);
    for (key, value) in settings.resource_attributes.iter().flatten() {
        attribute(key, attribute_value(value));
    }
    env.push(expanded(variables::OTEL_RESOURCE_ATTRIBUTES, attributes.join(",")));
    if settings.record_content {
        env.push(var(variables::OTEL_CAPTURE_CONTENT, "true"));
    }
    env
}

/// Percent-encodes characters that would end a value in `OTEL_RESOURCE_ATTRIBUTES`, or that Kubernetes would replace.
fn attribute_value(value: &str) -> String {
    let encode = |byte: u8| !(b'!'..=b'~').contains(&byte) || matches!(byte, b',' | b';' | b'"' | b'\\' | b'%' | b'$');
    let parts =
        value.bytes().map(|byte| if encode(byte) { format!("%{byte:02X}") } else { char::from(byte).to_string() });
    parts.collect()
}

/// A name as part of a variable name: `x-api-key` becomes `X_API_KEY`.
pub(crate) fn variable_name(name: &str) -> String {
    name.chars().map(|char| if char.is_ascii_alphanumeric() { char.to_ascii_uppercase() } else { '_' }).collect()
}

/// Settings of every OpenCode process: no update, no catalogue, no unexpected downloads, unless its
/// configuration needs npm at run time.
pub(crate) fn opencode(needs_npm: bool) -> Vec<EnvVar> {
    let mut env = vec![
        var(variables::OPENCODE_DISABLE_AUTOUPDATE, "1"),
        var(variables::OPENCODE_DISABLE_MODELS_FETCH, "1"),
        var(variables::OPENCODE_DISABLE_LSP_DOWNLOAD, "1"),
        var(variables::OPENCODE_DISABLE_DEFAULT_PLUGINS, "1"),
        var(variables::OPENCODE_DISABLE_FFF, "1"),
    ];
    if !needs_npm {
        // Stops a background download of 63 MB per Pod. See `paths::SHELL_ENV_FILE` for the agent's own npm.
        env.push(var(variables::NPM_CONFIG_OFFLINE, "true"));
    }
    env
}

/// Content of [`paths::SHELL_ENV_FILE`] in the Pod of a Task.
pub(crate) const TASK_SHELL_ENV: &str = "unset npm_config_offline\n";
/// The same for an Agent's server, whose password the agent's commands must not see.
pub(crate) const SERVER_SHELL_ENV: &str = "unset npm_config_offline OPENCODE_SERVER_PASSWORD\n";

#[cfg(test)]
mod tests {
    use super::*;
    use api::kinds::config::{OtelHeader, OtelHeaderSource};

    fn value<'a>(env: &'a [EnvVar], name: &str) -> Option<&'a str> {
        env.iter().find(|var| var.name == name)?.value.as_deref()
    }

    fn platform() -> Platform {
        crate::sample::platform()
    }

    #[test]
    fn users_text_is_not_expanded() {
        assert_eq!(var("A", "$(HOME) $$ $x").value.as_deref(), Some("$$(HOME) $$$$ $$x"));
    }

    #[test]
    fn of_two_variables_with_one_name_the_later_stays() {
        let env = settle(vec![var("A", "1"), var("B", "2"), var("A", "3")]);
        let names: Vec<&str> = env.iter().map(|var| var.name.as_str()).collect();
        assert_eq!((names, value(&env, "A")), (vec!["B", "A"], Some("3")));
    }

    #[test]
    fn the_cluster_is_reached_without_the_proxy() {
        let settings = Proxy {
            http_proxy: Some("http://p:3128".into()),
            https_proxy: None,
            no_proxy: Some("my.svc.example, .svc".into()),
        };
        let env = proxy(Some(&settings), &platform(), Some("10.0.0.7"));
        assert_eq!(value(&env, "http_proxy"), Some("http://p:3128"));
        assert_eq!(value(&env, "HTTPS_PROXY"), None);
        let expected = "my.svc.example,.svc,localhost,127.0.0.1,.cluster.local,10.0.0.7";
        assert_eq!(value(&env, "NO_PROXY"), Some(expected));
        assert_eq!(value(&env, "no_proxy"), Some(expected));
    }

    #[test]
    fn secret_headers_of_traces_stay_in_their_secret() {
        let plain = OtelHeader { value: Some("v$1".into()), value_from: None };
        let key = SecretKeyRef { name: "otel".into(), key: "token".into() };
        let hidden = OtelHeader { value: None, value_from: Some(OtelHeaderSource { secret_key_ref: key }) };
        let settings = OpenTelemetry {
            enabled: true,
            endpoint: Some("http://collector:4318".into()),
            headers: Some([("x-a".to_owned(), plain), ("x-token".to_owned(), hidden)].into()),
            resource_attributes: Some([("team".to_owned(), "a,b".to_owned())].into()),
            ..OpenTelemetry::default()
        };
        let traced = Traced { namespace: "ns", task: Some("t"), agent: None, pod: None };
        let env = telemetry(Some(&settings), &traced);
        assert_eq!(value(&env, "OTEL_EXPORTER_OTLP_HEADERS"), Some("x-a=v$$1,x-token=$(OTEL_HEADER_X_TOKEN)"));
        assert_eq!(
            value(&env, "OTEL_RESOURCE_ATTRIBUTES"),
            Some(
                "kubeopencode.task.name=t,kubeopencode.task.namespace=ns,k8s.namespace.name=ns,k8s.pod.name=$(OTEL_POD_NAME),team=a%2Cb"
            )
        );
    }
}
