//! Settings for tests: a default installation.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{
    names::{defaults, images},
    refs::SecretKeyRef,
    run::{Approval, Retry},
    workload::PodSettings,
};

use crate::{
    platform::Platform,
    run::resolved::{ResolvedAgent, ResolvedTarget, ResolvedTask},
};

/// A platform with default settings.
pub(crate) fn platform() -> Platform {
    Platform::default()
}

/// An agent with defaults only.
pub(crate) fn agent() -> ResolvedAgent {
    ResolvedAgent {
        agent_image: images::AGENT.to_owned(),
        executor_image: images::EXECUTOR.to_owned(),
        attach_image: images::ATTACH.to_owned(),
        executor_image_build: None,
        workspace_dir: defaults::WORKSPACE_DIR.to_owned(),
        command: None,
        contexts: Vec::new(),
        skills: Vec::new(),
        plugins: Vec::new(),
        config: None,
        credentials: Vec::new(),
        pod: PodSettings::default(),
        service_account_name: defaults::SERVICE_ACCOUNT.to_owned(),
        max_concurrent_tasks: None,
        quota: None,
        ca_bundle: None,
        proxy: None,
        image_pull_secrets: Vec::new(),
        extra_ports: Vec::new(),
        workspace: None,
        stall_timeout: Duration::from_secs(defaults::STALL_TIMEOUT_SECONDS),
        model: None,
        small_model: None,
        instructions: Vec::new(),
        tools: Vec::new(),
        approval: Approval::default(),
        network_policy: None,
    }
}

/// A Task on a template.
pub(crate) fn task(agent: ResolvedAgent) -> ResolvedTask {
    ResolvedTask {
        agent,
        target: ResolvedTarget::Template { name: "go-dev".to_owned() },
        description: Some("Fix the bug in main.go\n".to_owned()),
        contexts: Vec::new(),
        inputs: Vec::new(),
        timeout: None,
        startup_timeout: Duration::from_secs(defaults::STARTUP_TIMEOUT_SECONDS),
        workspace: None,
        artifacts: Vec::new(),
        caches: Vec::new(),
        outputs: Vec::new(),
        services: Vec::new(),
        retry: Retry::default(),
        collect_timeout: Duration::from_secs(defaults::COLLECT_TIMEOUT_SECONDS),
        publish: None,
        publish_inherited: false,
        budget: None,
    }
}

/// The same Task on an Agent.
pub(crate) fn task_on_agent(agent: ResolvedAgent) -> ResolvedTask {
    let target = ResolvedTarget::Agent {
        name: "reviewer".to_owned(),
        url: "http://reviewer.team.svc.cluster.local:4096".to_owned(),
        password_secret: Some(SecretKeyRef { name: "reviewer-server-auth".to_owned(), key: "password".to_owned() }),
    };
    ResolvedTask { target, ..task(agent) }
}

pub(crate) fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).expect("a test's own value")
}

/// A map from pairs.
pub(crate) fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
