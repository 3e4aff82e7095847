//! Merge of an Agent's settings with those of its template.
//!
//! The Agent's value takes precedence as a whole: nothing is merged inside of a value. An empty text or command counts
//! as unset; an empty list is a value, so that an Agent can remove its template's contexts.

use api::settings::AgentSettings;

/// The settings of an Agent on a template.
pub fn merge(agent: &AgentSettings, template: &AgentSettings) -> AgentSettings {
    merge_noting(agent, template, &mut |_, _| {})
}

/// The object that set a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    Agent,
    Template,
}

/// As [`merge`]; also records for each setting with a value, by its name in the spec, which object set it.
pub(crate) fn merge_noting(
    agent: &AgentSettings,
    template: &AgentSettings,
    note: &mut dyn FnMut(&'static str, Layer),
) -> AgentSettings {
    let mut choose = Choose { note };
    // Without `..`: a new setting does not compile until its merge is decided here.
    let AgentSettings {
        agent_image,
        executor_image,
        attach_image,
        executor_image_build,
        workspace_dir,
        command,
        contexts,
        skills,
        plugins,
        config,
        credentials,
        pod_spec,
        service_account_name,
        max_concurrent_tasks,
        quota,
        ca_bundle,
        proxy,
        image_pull_secrets,
        extra_ports,
        workspace,
        stall_timeout,
        model_ref,
        small_model_ref,
        instruction_refs,
        tools,
        approval,
        network_policy,
    } = agent;
    AgentSettings {
        agent_image: choose.text("agentImage", agent_image.as_ref(), template.agent_image.as_ref()),
        executor_image: choose.text("executorImage", executor_image.as_ref(), template.executor_image.as_ref()),
        attach_image: choose.text("attachImage", attach_image.as_ref(), template.attach_image.as_ref()),
        executor_image_build: choose.value(
            "executorImageBuild",
            executor_image_build.as_ref(),
            template.executor_image_build.as_ref(),
        ),
        workspace_dir: choose.text("workspaceDir", workspace_dir.as_ref(), template.workspace_dir.as_ref()),
        command: choose.command("command", command.as_ref(), template.command.as_ref()),
        contexts: choose.value("contexts", contexts.as_ref(), template.contexts.as_ref()),
        skills: choose.value("skills", skills.as_ref(), template.skills.as_ref()),
        plugins: choose.value("plugins", plugins.as_ref(), template.plugins.as_ref()),
        config: choose.value(
            "config",
            config.as_ref().filter(|c| is_given(c)),
            template.config.as_ref().filter(|c| is_given(c)),
        ),
        credentials: choose.value("credentials", credentials.as_ref(), template.credentials.as_ref()),
        pod_spec: choose.value("podSpec", pod_spec.as_ref(), template.pod_spec.as_ref()),
        service_account_name: choose.text(
            "serviceAccountName",
            service_account_name.as_ref(),
            template.service_account_name.as_ref(),
        ),
        max_concurrent_tasks: choose.value(
            "maxConcurrentTasks",
            max_concurrent_tasks.as_ref(),
            template.max_concurrent_tasks.as_ref(),
        ),
        quota: choose.value("quota", quota.as_ref(), template.quota.as_ref()),
        ca_bundle: choose.value("caBundle", ca_bundle.as_ref(), template.ca_bundle.as_ref()),
        proxy: choose.value("proxy", proxy.as_ref(), template.proxy.as_ref()),
        image_pull_secrets: choose.value(
            "imagePullSecrets",
            image_pull_secrets.as_ref(),
            template.image_pull_secrets.as_ref(),
        ),
        extra_ports: choose.value("extraPorts", extra_ports.as_ref(), template.extra_ports.as_ref()),
        workspace: choose.value("workspace", workspace.as_ref(), template.workspace.as_ref()),
        stall_timeout: choose.value("stallTimeout", stall_timeout.as_ref(), template.stall_timeout.as_ref()),
        model_ref: choose.value("modelRef", model_ref.as_ref(), template.model_ref.as_ref()),
        small_model_ref: choose.value("smallModelRef", small_model_ref.as_ref(), template.small_model_ref.as_ref()),
        instruction_refs: choose.value(
            "instructionRefs",
            instruction_refs.as_ref(),
            template.instruction_refs.as_ref(),
        ),
        tools: choose.value("tools", tools.as_ref(), template.tools.as_ref()),
        approval: choose.value("approval", approval.as_ref(), template.approval.as_ref()),
        network_policy: choose.value("networkPolicy", network_policy.as_ref(), template.network_policy.as_ref()),
    }
}

/// Whether a configuration is set: the empty text and null are what tools write for "unset".
fn is_given(config: &serde_json::Value) -> bool {
    !config.is_null() && config.as_str().is_none_or(|text| !text.trim().is_empty())
}

/// Chooses between an Agent's value and its template's.
struct Choose<'a> {
    note: &'a mut dyn FnMut(&'static str, Layer),
}

impl Choose<'_> {
    fn value<T: Clone>(&mut self, setting: &'static str, agent: Option<&T>, template: Option<&T>) -> Option<T> {
        let (value, layer) = match (agent, template) {
            (Some(value), _) => (value, Layer::Agent),
            (None, Some(value)) => (value, Layer::Template),
            (None, None) => return None,
        };
        (self.note)(setting, layer);
        Some(value.clone())
    }

    fn text(&mut self, setting: &'static str, agent: Option<&String>, template: Option<&String>) -> Option<String> {
        let given = |text: &&String| !text.is_empty();
        self.value(setting, agent.filter(given), template.filter(given))
    }

    fn command(
        &mut self,
        setting: &'static str,
        agent: Option<&Vec<String>>,
        template: Option<&Vec<String>>,
    ) -> Option<Vec<String>> {
        let given = |command: &&Vec<String>| !command.is_empty();
        self.value(setting, agent.filter(given), template.filter(given))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]

    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(agent: Value, template: Value, expected: Value) {
        let read = |value| serde_json::from_value::<AgentSettings>(value).unwrap();
        let (agent, template) = (read(agent), read(template));
        assert_eq!(serde_json::to_value(merge(&agent, &template)).unwrap(), expected);
    }

    #[test]
    fn the_agents_value_wins_where_it_has_one() {
        check(json!({"executorImage": "a"}), json!({"executorImage": "t"}), json!({"executorImage": "a"}));
        check(json!({}), json!({"executorImage": "t"}), json!({"executorImage": "t"}));
        check(json!({"executorImage": "a"}), json!({}), json!({"executorImage": "a"}));
        check(json!({}), json!({}), json!({}));
    }

    #[test]
    fn an_empty_text_is_no_value() {
        check(json!({"workspaceDir": ""}), json!({"workspaceDir": "/w"}), json!({"workspaceDir": "/w"}));
        check(json!({"serviceAccountName": ""}), json!({"serviceAccountName": ""}), json!({}));
        check(json!({"config": " "}), json!({"config": {"a": 1}}), json!({"config": {"a": 1}}));
    }

    #[test]
    fn an_explicit_empty_list_wins() {
        let template = json!({"contexts": [{"type": "Text", "text": "t"}], "credentials": []});
        check(json!({"contexts": []}), template, json!({"contexts": [], "credentials": []}));
        check(
            json!({"imagePullSecrets": []}),
            json!({"imagePullSecrets": [{"name": "s"}]}),
            json!({"imagePullSecrets": []}),
        );
    }

    #[test]
    fn an_empty_command_does_not_win() {
        check(json!({"command": []}), json!({"command": ["sh"]}), json!({"command": ["sh"]}));
    }

    #[test]
    fn values_are_taken_as_a_whole() {
        check(
            json!({"podSpec": {"labels": {"a": "1"}}, "proxy": {"httpProxy": "h"}, "maxConcurrentTasks": 0}),
            json!({"podSpec": {"runtimeClassName": "gvisor"}, "proxy": {"noProxy": "n"}, "maxConcurrentTasks": 3}),
            json!({"podSpec": {"labels": {"a": "1"}}, "proxy": {"httpProxy": "h"}, "maxConcurrentTasks": 0}),
        );
    }

    #[test]
    fn each_setting_is_noted_with_the_layer_that_gave_it() {
        let agent = AgentSettings { executor_image: Some("a".into()), ..AgentSettings::default() };
        let template = AgentSettings {
            executor_image: Some("t".into()),
            attach_image: Some("t".into()),
            ..AgentSettings::default()
        };
        let mut seen = Vec::new();
        merge_noting(&agent, &template, &mut |setting, layer| seen.push((setting, layer)));
        assert_eq!(seen, [("executorImage", Layer::Agent), ("attachImage", Layer::Template)]);
    }
}
