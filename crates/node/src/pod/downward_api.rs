//! The downward API: `fieldRef` and `resourceFieldRef`.

use std::net::Ipv4Addr;

use k8s_openapi::{
    api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt as _;

/// Capacity of the machine, the default of limits that are not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) processors: usize,
    /// In bytes.
    pub(crate) memory: u64,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let info = rustix::system::sysinfo();
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { processors, memory: info.totalram * u64::from(info.mem_unit) }
    }
}

/// The source of downward API values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DownwardApi<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) address: Ipv4Addr,
    pub(crate) host: Ipv4Addr,
    pub(crate) machine: Machine,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DownwardApiError {
    #[error("unsupported fieldPath: {0}")]
    Field(String),
    #[error("unsupported container resource: {0}")]
    Resource(String),
    #[error("container {0:?} of the resourceFieldRef is not in the Pod")]
    Container(String),
}

impl DownwardApi<'_> {
    pub(crate) fn field(&self, selector: &ObjectFieldSelector) -> Result<String, DownwardApiError> {
        let pod = self.pod;
        let path = selector.field_path.as_str();
        let spec = pod.spec.as_ref();
        let text = |value: Option<&String>| value.cloned().unwrap_or_default();
        if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
            return match map {
                "metadata.labels" => Ok(text(pod.labels().get(key))),
                "metadata.annotations" => Ok(text(pod.annotations().get(key))),
                _ => Err(DownwardApiError::Field(path.to_owned())),
            };
        }
        match path {
            "metadata.name" => Ok(pod.name_any()),
            "metadata.namespace" => Ok(pod.namespace().unwrap_or_default()),
            "metadata.uid" => Ok(pod.uid().unwrap_or_default()),
            "metadata.labels" => Ok(listed(pod.labels())),
            "metadata.annotations" => Ok(listed(pod.annotations())),
            "spec.nodeName" => Ok(text(spec.and_then(|spec| spec.node_name.as_ref()))),
            "spec.serviceAccountName" => Ok(text(spec.and_then(|spec| spec.service_account_name.as_ref()))),
            "status.hostIP" | "status.hostIPs" => Ok(self.host.to_string()),
            "status.podIP" | "status.podIPs" => Ok(self.address.to_string()),
            other => Err(DownwardApiError::Field(other.to_owned())),
        }
    }

    /// The value of a resource of `container`, or of the container that the selector names.
    pub(crate) fn resource(
        &self,
        container: Option<&Container>,
        selector: &ResourceFieldSelector,
    ) -> Result<String, DownwardApiError> {
        let spec = self.pod.spec.as_ref();
        let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
        let container = match named {
            Some(name) => {
                let all =
                    spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
                let found = all.into_iter().find(|container| container.name == name);
                Some(found.ok_or_else(|| DownwardApiError::Container(name.to_owned()))?)
            }
            None => container,
        };
        let unknown = || DownwardApiError::Resource(selector.resource.clone());
        let (kind, name) = selector.resource.split_once('.').ok_or_else(unknown)?;
        let resources = container.and_then(|container| container.resources.as_ref());
        let limits = resources.and_then(|resources| resources.limits.as_ref()).and_then(|all| all.get(name));
        let requests = resources.and_then(|resources| resources.requests.as_ref()).and_then(|all| all.get(name));
        let amount = match kind {
            "limits" => limits.cloned().or_else(|| self.whole(name)),
            "requests" => requests.or(limits).cloned().or_else(|| Some(Quantity("0".to_owned()))),
            _ => None,
        };
        let amount = amount.ok_or_else(unknown)?;
        let count = divided(&amount, selector.divisor.as_ref()).ok_or_else(unknown)?;
        Ok(count.to_string())
    }

    fn whole(&self, resource: &str) -> Option<Quantity> {
        match resource {
            "cpu" => Some(Quantity(self.machine.processors.to_string())),
            "memory" => Some(Quantity(self.machine.memory.to_string())),
            "ephemeral-storage" => Some(Quantity("0".to_owned())),
            _ => None,
        }
    }
}

/// The amount in units of `divisor`, rounded up. A divisor that is not set, or zero, is 1.
fn divided(amount: &Quantity, divisor: Option<&Quantity>) -> Option<i128> {
    let amount = amount.0.parse::<units::Quantity>().ok()?;
    match divisor.filter(|divisor| !matches!(divisor.0.as_str(), "" | "0")) {
        Some(divisor) => amount.divided_by(divisor.0.parse().ok()?),
        None => Some(amount.ceil()),
    }
}

/// Labels or annotations in file format: one line each, sorted, values quoted.
fn listed(map: &std::collections::BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map.iter().map(|(key, value)| format!("{key}={value:?}")).collect();
    lines.join("\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn facts(pod: &Pod) -> DownwardApi<'_> {
        let machine = Machine { processors: 4, memory: 1 << 30 };
        DownwardApi { pod, address: Ipv4Addr::new(127, 80, 0, 7), host: Ipv4Addr::LOCALHOST, machine }
    }

    fn pod() -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "1", "b": "two\n"},
                         "annotations": {"files.kubeopencode.io/0": "text"}},
            "spec": {"nodeName": "local", "containers": [
                {"name": "c", "resources": {"limits": {"memory": "4Gi"}, "requests": {"cpu": "250m"}}},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn fields_of_the_pod_are_known() {
        let pod = pod();
        let check = |path: &str, expected: &str| {
            let selector = ObjectFieldSelector { field_path: path.into(), ..ObjectFieldSelector::default() };
            assert_eq!(facts(&pod).field(&selector).unwrap_or_else(|error| error.to_string()), expected);
        };
        check("metadata.name", "p");
        check("status.podIP", "127.80.0.7");
        check("metadata.annotations['files.kubeopencode.io/0']", "text");
        check("metadata.labels['missing']", "");
        check("metadata.labels", "a=\"1\"\nb=\"two\\n\"");
        check("spec.secret", "unsupported fieldPath: spec.secret");
    }

    #[test]
    fn resources_are_divided_and_default_to_the_machine() {
        let pod = pod();
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let check = |resource: &str, divisor: &str, expected: &str| {
            let selector = ResourceFieldSelector {
                resource: resource.into(),
                divisor: Some(Quantity(divisor.into())),
                container_name: None,
            };
            let value = facts(&pod).resource(Some(container), &selector);
            assert_eq!(value.unwrap_or_else(|error| error.to_string()), expected, "{resource}");
        };
        check("limits.memory", "1Mi", "4096");
        check("limits.cpu", "0", "4");
        check("requests.cpu", "1m", "250");
        check("requests.memory", "1Gi", "4");
        check("limits.gpu", "1", "unsupported container resource: limits.gpu");
    }
}
