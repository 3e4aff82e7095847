//! Resource limits of containers.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use units::Quantity;

/// Maximum number of processes and threads of a container; the kubelet has such a limit as `podPidsLimit`. Without it a
/// fork bomb takes the machine.
const PROCESSES: u64 = 16_384;
/// Period of the CPU quota, in microseconds.
pub(crate) const CPU_PERIOD: u64 = 100_000;
/// Minimum quota of the kernel, in microseconds.
const MIN_QUOTA: u64 = 1_000;

type ResourceList = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// In bytes.
    pub(crate) memory: Option<u64>,
    /// In thousandths of a CPU.
    pub(crate) cpu: Option<u64>,
    /// In thousandths of a CPU; the share under contention.
    pub(crate) cpu_request: Option<u64>,
    /// Maximum number of processes and threads.
    pub(crate) processes: u64,
}

impl Limits {
    /// The limits of a container. An invalid quantity is no limit.
    pub(crate) fn of(container: &Container) -> Self {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let positive = |amount: i128| u64::try_from(amount).ok().filter(|amount| *amount > 0);
        let amount = |list: Option<&ResourceList>, name: &str| list?.get(name)?.0.parse::<Quantity>().ok();
        let cpu = amount(limits, "cpu");
        // As in Kubernetes, a limit is the default of the request.
        let request = if requests.is_some_and(|all| all.contains_key("cpu")) { amount(requests, "cpu") } else { cpu };
        Self {
            memory: amount(limits, "memory").map(Quantity::ceil).and_then(positive),
            cpu: cpu.map(Quantity::millis).and_then(positive),
            cpu_request: request.map(Quantity::millis).and_then(positive),
            processes: PROCESSES,
        }
    }

    /// No limits except the number of processes.
    pub(crate) fn none() -> Self {
        Self { memory: None, cpu: None, cpu_request: None, processes: PROCESSES }
    }

    /// Microseconds of CPU time per [`CPU_PERIOD`].
    pub(crate) fn cpu_quota(&self) -> Option<u64> {
        self.cpu.map(|cpu| (cpu.saturating_mul(CPU_PERIOD) / 1000).max(MIN_QUOTA))
    }

    /// The weight in cgroup v1: 1024 per CPU, at least 2.
    pub(crate) fn cpu_shares(&self) -> u64 {
        self.cpu_request.map_or(2, |cpu| (cpu.saturating_mul(1024) / 1000).clamp(2, 262_144))
    }

    /// The weight in cgroup v2, from 1 to 10000.
    pub(crate) fn cpu_weight(&self) -> u64 {
        1 + (self.cpu_shares() - 2) * 9999 / 262_142
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn limits(resources: &Value) -> Limits {
        Limits::of(&serde_json::from_value(json!({"name": "c", "resources": resources})).unwrap())
    }

    #[test]
    fn limits_are_read_as_kubernetes_writes_them() {
        let found = limits(&json!({"limits": {"memory": "64Mi", "cpu": "250m"}, "requests": {"cpu": "100m"}}));
        assert_eq!((found.memory, found.cpu, found.cpu_request), (Some(64 << 20), Some(250), Some(100)));
        assert_eq!((found.cpu_quota(), found.cpu_shares(), found.cpu_weight()), (Some(25_000), 102, 4));
        let found = limits(&json!({"limits": {"cpu": "1.5"}}));
        assert_eq!((found.memory, found.cpu_quota(), found.cpu_shares()), (None, Some(150_000), 1536));
    }

    #[test]
    fn without_limits_only_processes_are_bounded() {
        let found = limits(&json!({}));
        assert_eq!((found.memory, found.cpu_quota(), found.cpu_shares(), found.processes), (None, None, 2, PROCESSES));
        assert_eq!(limits(&json!({"limits": {"memory": "0", "cpu": "nonsense"}})).cpu_quota(), None);
        assert_eq!(limits(&json!({"limits": {"cpu": "1m"}})).cpu_quota(), Some(1_000), "the kernel takes no less");
    }
}
