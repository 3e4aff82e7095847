//! Settings that the API accepts and that have no effect yet. A run that uses one gets a warning event.

use api::workload::NetworkMode;

use crate::run::resolved::ResolvedTask;

/// A warning for each setting of a run that has no effect.
pub fn without_effect(task: &ResolvedTask) -> Vec<&'static str> {
    let restricted = task.agent.network_policy.as_ref().is_some_and(|policy| policy.mode == NetworkMode::Restricted);
    [
        (!task.artifacts.is_empty(), "artifacts are not kept yet: let the agent push or upload what has to stay"),
        (!task.inputs.is_empty(), "inputs are not fetched yet: hand files over by a context or a shared workspace"),
        (!task.caches.is_empty(), "caches are not used yet: every run downloads what it needs"),
        (!task.outputs.is_empty(), "outputs are not checked yet"),
        (task.agent.executor_image_build.is_some(), "executorImageBuild builds nothing yet: executorImage is used"),
        (restricted, "networkPolicy restricts nothing yet: write a NetworkPolicy for the label app=kubeopencode"),
    ]
    .into_iter()
    .filter_map(|(is_set, sentence)| is_set.then_some(sentence))
    .collect()
}

#[cfg(test)]
mod tests {
    use api::workload::NetworkPolicy;

    use super::*;
    use crate::sample;

    #[test]
    fn only_settings_that_are_set_and_have_no_effect_get_a_warning() {
        let mut task = sample::task(sample::agent());
        assert_eq!(without_effect(&task), [""; 0]);
        task.outputs = vec!["verdict".into()];
        task.agent.network_policy = Some(NetworkPolicy { mode: NetworkMode::Open, ..NetworkPolicy::default() });
        assert_eq!(without_effect(&task), ["outputs are not checked yet"]);
        task.agent.network_policy = Some(NetworkPolicy { mode: NetworkMode::Restricted, ..NetworkPolicy::default() });
        assert_eq!(without_effect(&task).len(), 2);
    }
}
