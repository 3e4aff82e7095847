//! Settings that the API accepts and that have no effect on a run. A run that uses one gets a warning event.

use api::workload::NetworkMode;

use crate::{platform::Platform, run::resolved::ResolvedTask, workload::pod::attaches};

/// A warning for each setting of a run that has no effect.
pub fn without_effect(task: &ResolvedTask, platform: &Platform) -> Vec<String> {
    let mut all = Vec::new();
    let ResolvedTask { artifacts, inputs, caches, outputs, publish, .. } = task;
    let on_agent = attaches(task);
    let stored = [
        (!artifacts.is_empty(), "artifacts are not kept"),
        (!inputs.is_empty(), "inputs are not fetched"),
        (!caches.is_empty() && !on_agent, "caches are not used"),
        (!outputs.is_empty(), "outputs are not checked"),
    ];
    if platform.depot_url.is_none() {
        let why_not = "because the controller has no depot: set KUBEOPENCODE_DEPOT_URL";
        all.extend(stored.into_iter().filter(|(set, _)| *set).map(|(_, what)| format!("{what} {why_not}")));
    }
    if !caches.is_empty() && on_agent {
        all.push(
            "caches are not used for Tasks on an Agent, whose workspace outlives its Tasks: use templateRef".to_owned(),
        );
    }
    if publish.is_some() && on_agent {
        all.push("publish has no effect for Tasks on an Agent yet: use templateRef".to_owned());
    }
    if task.agent.network_policy.as_ref().is_some_and(|policy| policy.mode == NetworkMode::Restricted) {
        all.push(
            "networkPolicy restricts nothing yet: write a NetworkPolicy for the label app=kubeopencode".to_owned(),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use api::workload::NetworkPolicy;

    use super::*;
    use crate::sample;

    #[test]
    fn only_settings_that_are_set_and_have_no_effect_get_a_warning() {
        let (mut task, mut platform) = (sample::task(sample::agent()), sample::platform());
        platform.depot_url = None;
        assert_eq!(without_effect(&task, &platform), [""; 0]);
        task.outputs = vec!["verdict".into()];
        task.agent.network_policy = Some(NetworkPolicy { mode: NetworkMode::Open, ..NetworkPolicy::default() });
        let no_depot = "outputs are not checked because the controller has no depot: set KUBEOPENCODE_DEPOT_URL";
        assert_eq!(without_effect(&task, &platform), [no_depot]);
        platform.depot_url = Some("http://depot".into());
        assert_eq!(without_effect(&task, &platform), [""; 0]);
        let mut on_agent = sample::task_on_agent(sample::agent());
        on_agent.outputs = vec!["verdict".into()];
        assert_eq!(without_effect(&on_agent, &platform), [""; 0]);
        on_agent.caches = sample::from_json(serde_json::json!([{ "name": "go", "key": "go", "paths": ["go"] }]));
        on_agent.publish = Some(sample::from_json(serde_json::json!({ "secretRef": { "name": "git" } })));
        let [caches, publish] = without_effect(&on_agent, &platform).try_into().expect("two warnings");
        assert!(caches.starts_with("caches are not used for Tasks on an Agent") && publish.starts_with("publish "));
        task.agent.network_policy = Some(NetworkPolicy { mode: NetworkMode::Restricted, ..NetworkPolicy::default() });
        assert_eq!(without_effect(&task, &platform).len(), 1);
    }
}
