//! What holds for the whole platform: `KubeOpenCodeConfig`, the process environment, and what is built in.

use std::time::Duration;

use api::{
    kinds::config::{Cleanup, ImagePullPolicy, OpenTelemetry},
    run::{Budget, Retry, Workspace},
    workload::{NetworkPolicy, Proxy},
};

/// The platform as the decisions see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Image of our own helpers.
    pub system_image: String,
    /// When nodes pull it.
    pub system_image_pull_policy: ImagePullPolicy,
    /// Image that copies OpenCode to `/tools`, unless an Agent or template names one.
    pub agent_image: String,
    /// Image in which agents work, unless an Agent or template names one.
    pub executor_image: String,
    /// Image of the attach client, unless an Agent or template names one.
    pub attach_image: String,
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Proxy of Pods whose Agent or template sets none.
    pub proxy: Option<Proxy>,
    /// Traces of what happens in Pods.
    pub open_telemetry: Option<OpenTelemetry>,
    /// When finished Tasks are deleted.
    pub cleanup: Cleanup,
    /// How long a Task waits for an Agent or template that does not exist yet.
    pub reference_grace_period: Duration,
    /// From admission to the start of the task container.
    pub startup_timeout: Duration,
    /// A run without any event for this long ends.
    pub stall_timeout: Duration,
    /// Workspace of runs that set none.
    pub workspace: Option<Workspace>,
    /// Retries of runs that set none.
    pub retry: Option<Retry>,
    /// Budget of runs that set none.
    pub budget: Option<Budget>,
    /// Network policy of Pods that set none.
    pub network_policy: Option<NetworkPolicy>,
    /// How servers in Pods listen and are reached.
    pub addressing: Addressing,
}

/// How servers in Pods listen and are reached. One setting, so that nothing else asks where it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// On a cluster: listen on every address, be reached by the Service's DNS name.
    #[default]
    Cluster,
    /// On one machine: listen on the Pod's own loopback address, be reached by the Service's address.
    Local,
}
