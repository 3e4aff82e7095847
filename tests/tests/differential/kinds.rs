//! The kinds to which requests are sent.

use serde_json::Value;

use crate::dice::Dice;
use crate::pieces;

/// Makes a piece of an object.
type Piece = fn(&mut Dice) -> Value;

#[derive(Clone, Copy)]
pub struct Kind {
    pub api_version: &'static str,
    pub name: &'static str,
    plural: &'static str,
    pub namespaced: bool,
    /// Whether it has a `scale`.
    pub scales: bool,
    pub piece: Piece,
    pub status: Option<Piece>,
}

const OURS: &str = "kubeopencode.io/v1alpha1";

/// Each as often as its weight.
const KINDS: [(usize, Kind); 16] = [
    (4, of("v1", "ConfigMap", "configmaps", pieces::config_map)),
    (2, of("v1", "Secret", "secrets", pieces::secret)),
    (2, of("v1", "Service", "services", pieces::service)),
    (1, of("v1", "Service", "services", pieces::headless_service)),
    (1, of("v1", "ServiceAccount", "serviceaccounts", pieces::service_account)),
    (4, of("v1", "Pod", "pods", pieces::pod).with_status(pieces::pod_status)),
    (1, of("v1", "Namespace", "namespaces", pieces::namespace).of_the_cluster()),
    (4, of("apps/v1", "Deployment", "deployments", pieces::deployment).with_status(pieces::workload_status).scaled()),
    (1, of("apps/v1", "ReplicaSet", "replicasets", pieces::replica_set).with_status(pieces::workload_status).scaled()),
    (1, of("coordination.k8s.io/v1", "Lease", "leases", pieces::lease)),
    (1, of("rbac.authorization.k8s.io/v1", "Role", "roles", pieces::role)),
    (1, of("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", pieces::role).of_the_cluster()),
    (6, of(OURS, "Task", "tasks", pieces::task).with_status(pieces::task_status)),
    (4, of(OURS, "Agent", "agents", pieces::agent).with_status(pieces::agent_status)),
    (1, of(OURS, "Instruction", "instructions", pieces::instruction)),
    (1, of(OURS, "MCPServer", "mcpservers", pieces::mcp_server).with_status(pieces::agent_status).scaled()),
];

const fn of(api_version: &'static str, name: &'static str, plural: &'static str, piece: Piece) -> Kind {
    Kind { api_version, name, plural, namespaced: true, scales: false, piece, status: None }
}

impl Kind {
    const fn with_status(self, status: Piece) -> Self {
        Self { status: Some(status), ..self }
    }

    const fn of_the_cluster(self) -> Self {
        Self { namespaced: false, ..self }
    }

    const fn scaled(self) -> Self {
        Self { scales: true, ..self }
    }

    /// The kind of the sequence with this number: all of them in turn.
    pub fn of_sequence(number: u64) -> Self {
        let sum: usize = KINDS.iter().map(|(weight, _)| weight).sum();
        let mut place = usize::try_from(number).unwrap_or_default() % sum;
        for (weight, kind) in KINDS {
            if place < weight {
                return kind;
            }
            place -= weight;
        }
        KINDS[0].1
    }

    /// Whether Kubernetes brings it.
    pub fn is_builtin(&self) -> bool {
        self.api_version != OURS
    }

    pub fn collection(&self, namespace: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        if self.namespaced {
            format!("/{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural)
        } else {
            format!("/{root}/{}/{}", self.api_version, self.plural)
        }
    }
}
