//! Security contexts: the restricted Pod Security standard unless the user sets another.

use api::workload::PodSettings;
use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

/// UID in our images.
const USER: i64 = 1000;

/// For containers without settings of their own.
pub(crate) fn container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
        seccomp_profile: Some(runtime_default()),
        ..SecurityContext::default()
    }
}

/// For the agent's container.
pub(crate) fn agent_container(pod: &PodSettings) -> SecurityContext {
    pod.security_context.clone().unwrap_or_else(container)
}

/// For the Pod. Settings of the user replace ours as a whole. `podSecurityContext: {}` sets nothing, as OpenShift
/// requires, which chooses the UID itself.
pub(crate) fn pod(pod: &PodSettings) -> Option<PodSecurityContext> {
    match (&pod.pod_security_context, &pod.security_context) {
        (Some(own), _) => Some(own.clone()),
        (None, Some(_)) => None,
        (None, None) => Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER),
            run_as_group: Some(USER),
            fs_group: Some(USER),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(runtime_default()),
            ..PodSecurityContext::default()
        }),
    }
}

fn runtime_default() -> SeccompProfile {
    SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }
}
