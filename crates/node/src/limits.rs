//! What a container may use of the machine at most.

use k8s_openapi::api::core::v1::Container;

use crate::quantity;

/// More processes and threads than this are a fault of the container, not work: a kubelet has such a bound as a setting,
/// and without one a fork bomb in a Pod takes the machine.
const PROCESSES: u64 = 16_384;
/// The kernel gives processors by the share of this time, in microseconds.
pub(crate) const CPU_PERIOD: u64 = 100_000;
/// It takes no smaller share.
const SMALLEST_QUOTA: u64 = 1_000;

/// Limits of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of memory.
    pub(crate) memory: Option<u64>,
    /// Thousandths of a processor.
    pub(crate) cpu: Option<u64>,
    /// Thousandths of a processor that it gets when others want the machine too.
    pub(crate) cpu_request: Option<u64>,
    /// Processes and threads.
    pub(crate) processes: u64,
}

impl Limits {
    /// As the container says them. What is no amount is no limit.
    pub(crate) fn of(container: &Container) -> Self {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let requests = resources.and_then(|resources| resources.requests.as_ref());
        let positive = |amount: i128| u64::try_from(amount).ok().filter(|amount| *amount > 0);
        let memory = limits.and_then(|all| all.get("memory")).and_then(|amount| quantity::divided(amount, None));
        let cpu = limits.and_then(|all| all.get("cpu"));
        // As everywhere in Kubernetes, a limit alone is a request too.
        let request = requests.and_then(|all| all.get("cpu")).or(cpu).and_then(quantity::thousandths);
        Self {
            memory: memory.and_then(positive),
            cpu: cpu.and_then(quantity::thousandths).and_then(positive),
            cpu_request: request.and_then(positive),
            processes: PROCESSES,
        }
    }

    /// No limits but the bound of processes.
    pub(crate) fn none() -> Self {
        Self { memory: None, cpu: None, cpu_request: None, processes: PROCESSES }
    }

    /// Microseconds of processor time in each [`CPU_PERIOD`].
    pub(crate) fn cpu_quota(&self) -> Option<u64> {
        self.cpu.map(|cpu| (cpu.saturating_mul(CPU_PERIOD) / 1000).max(SMALLEST_QUOTA))
    }

    /// The weight among others as version 1 of control groups counts it: 1024 a processor, 2 at least.
    pub(crate) fn cpu_shares(&self) -> u64 {
        self.cpu_request.map_or(2, |cpu| (cpu.saturating_mul(1024) / 1000).clamp(2, 262_144))
    }

    /// The same as version 2 counts it, from 1 to 10000.
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
    fn who_says_nothing_has_only_the_bound_of_processes() {
        let found = limits(&json!({}));
        assert_eq!((found.memory, found.cpu_quota(), found.cpu_shares(), found.processes), (None, None, 2, PROCESSES));
        assert_eq!(limits(&json!({"limits": {"memory": "0", "cpu": "nonsense"}})).cpu_quota(), None);
        assert_eq!(limits(&json!({"limits": {"cpu": "1m"}})).cpu_quota(), Some(1_000), "the kernel takes no less");
    }
}
