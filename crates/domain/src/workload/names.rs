//! Names of the objects that we derive from a Task or an Agent. Other tools rely on them.

use api::{TaskSpec, names::labels};

/// Pod of a run: `<task>-pod` for the first, `<task>-pod-<epoch>` after.
pub fn task_pod(task: &str, epoch: i64) -> String {
    if epoch <= 1 { format!("{task}-pod") } else { format!("{task}-pod-{epoch}") }
}

/// ConfigMap with the contexts of a Task.
pub fn task_context(task: &str) -> String {
    format!("{task}-context")
}

/// Deployment of an Agent.
pub fn agent_deployment(agent: &str) -> String {
    format!("{agent}-server")
}

/// Service of an Agent.
pub fn agent_service(agent: &str) -> String {
    agent.to_owned()
}

/// ConfigMap with the contexts of an Agent.
pub fn agent_context(agent: &str) -> String {
    format!("{agent}-server-context")
}

/// Claim for an Agent's sessions.
pub fn agent_sessions_claim(agent: &str) -> String {
    format!("{agent}-server-sessions")
}

/// Claim for an Agent's workspace.
pub fn agent_workspace_claim(agent: &str) -> String {
    format!("{agent}-server-workspace")
}

/// Secret with the token of an Agent's share link.
pub fn agent_share(agent: &str) -> String {
    format!("{agent}-share")
}

/// Secret with the generated password of an Agent's server, under the key `password`.
pub fn agent_password(agent: &str) -> String {
    format!("{agent}-server-auth")
}

/// Secret with the generated token of an Agent's companion, under the key `token`.
pub fn agent_companion(agent: &str) -> String {
    format!("{agent}-companion")
}

/// The label of a Task that names its target, and its value. The creator of a Task sets this label, or the API server
/// does (`deploy/admission`); otherwise the controller adds it, which costs a write.
pub fn runs_on(task: &TaskSpec) -> Option<(&'static str, &str)> {
    match (&task.agent_ref, &task.template_ref) {
        (Some(agent), _) => Some((labels::AGENT, &agent.name)),
        (None, Some(template)) => Some((labels::AGENT_TEMPLATE, &template.name)),
        (None, None) => None,
    }
}

/// Title of the OpenCode session of a Task.
pub fn session_title(namespace: &str, task: &str, uid: &str) -> String {
    let uid: String = uid.chars().take(8).collect();
    format!("kubeopencode/{namespace}/{task}/{uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pod_has_no_number() {
        assert_eq!(task_pod("fix", 1), "fix-pod");
        assert_eq!(task_pod("fix", 2), "fix-pod-2");
    }
}
