//! Settings of the attach client, from its environment.

use std::path::PathBuf;
use std::time::Duration;

use domain::contract::paths;
use domain::run::approval::Rule;
use domain::run::budget::Allowance;
use serde_json::{Value, json};

use super::arguments::Arguments;
use crate::budget;
use crate::changes::agent::Remote;
use crate::env::{self, Lookup, SettingError};
use egress::Authorities;

/// How requests that need a person are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approval {
    /// Reject the request, which ends the run: no person can answer.
    #[default]
    Reject,
    /// Approve a permission once; reject a question, which no person can answer.
    Approve,
    /// Wait for a person to answer on the server; reject it after [`Settings::approval_timeout`].
    Wait,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// Identity of the Task, stored in the session's metadata.
    pub task: Value,
    /// User of the server.
    pub username: String,
    pub prompt_file: Option<PathBuf>,
    /// File whose text becomes the `system` field of the request.
    pub system_file: Option<PathBuf>,
    /// The workspace of the Agent, whose changes are reported.
    pub workspace: Option<Remote>,
    /// How permission requests are answered.
    pub approval: Approval,
    /// Whether every tool call needs an approval, whatever the agent's own rules say.
    pub ask_for_everything: bool,
    /// Timeout of [`Approval::Wait`].
    pub approval_timeout: Duration,
    /// A run without progress for this long is stopped.
    pub stall: Duration,
    /// Tokens and cost that the run may use.
    pub allowance: Allowance,
    /// How long the server may take to become ready.
    pub start: Duration,
    /// How long the server may be unreachable.
    pub lost: Duration,
    /// File that receives the paths of the files that the session edited.
    pub edits_file: Option<PathBuf>,
    pub authorities: Authorities,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let mode = env::text(env, env::APPROVAL_MODE);
        let approval = match mode.as_deref() {
            None | Some("Reject") => Approval::Reject,
            Some("Approve") => Approval::Approve,
            Some("Wait" | "Always") => Approval::Wait,
            Some(other) => {
                return Err(SettingError::Invalid {
                    name: env::APPROVAL_MODE,
                    problem: format!("`{other}` is not a mode"),
                    expected: "Reject, Approve, Wait or Always",
                });
            }
        };
        let value = |name: &str| env::text(env, name);
        let seconds = |name, default| env::duration(env, name, Duration::from_secs(default));
        Ok(Self {
            task: json!({
                "namespace": value(env::TASK_NAMESPACE),
                "name": value(env::TASK_NAME),
                "uid": value(env::TASK_UID),
                "epoch": value(env::TASK_EPOCH),
            }),
            username: value(env::OPENCODE_SERVER_USERNAME).unwrap_or_else(|| opencode::server::USER.to_owned()),
            prompt_file: value(env::PROMPT_FILE).map(PathBuf::from),
            system_file: value(env::KUBEOPENCODE_SYSTEM_FILE).map(PathBuf::from),
            workspace: value(env::WORKSPACE_DIR).map(|root| Remote {
                root: root.into(),
                helper: [paths::OUR_BINARY, "changes"].map(str::to_owned).into(),
            }),
            approval,
            ask_for_everything: mode.as_deref() == Some("Always"),
            approval_timeout: seconds(env::APPROVAL_TIMEOUT_SECONDS, 3600)?,
            stall: seconds(env::STALL_TIMEOUT_SECONDS, 900)?,
            allowance: budget::allowance(env)?,
            start: seconds(env::START_TIMEOUT_SECONDS, 120)?,
            lost: seconds(env::SERVER_LOST_SECONDS, 60)?,
            edits_file: value(env::EDITS_FILE).map(PathBuf::from),
            authorities: crate::authorities::from_env(env),
        })
    }

    /// Applies the arguments: `--auto` approves all requests.
    #[must_use]
    pub fn under(mut self, arguments: &Arguments) -> Self {
        if arguments.auto {
            self.approval = Approval::Approve;
        }
        self
    }
}

/// Body of the request that creates a session, with permission rules if there are any.
pub fn session_body(arguments: &Arguments, settings: &Settings, rules: Option<&[Rule]>) -> Value {
    let name = settings.task.get("name").and_then(Value::as_str);
    // With a title OpenCode does not call the model to generate one.
    let title = arguments.title.as_deref().or(name).unwrap_or("KubeOpenCode task");
    let mut body = json!({ "title": title, "metadata": { "task": settings.task } });
    if let Some(rules) = rules {
        body["permission"] = json!(rules);
    }
    body
}

/// Body of the request that sends the prompt.
pub fn prompt_body(arguments: &Arguments, prompt: &str, system: Option<&str>) -> Value {
    let mut body = json!({ "parts": [{ "type": "text", "text": prompt }] });
    if let Some((provider, model)) = &arguments.model {
        body["model"] = json!({ "providerID": provider, "modelID": model });
    }
    for (name, value) in
        [("agent", arguments.agent.as_deref()), ("variant", arguments.variant.as_deref()), ("system", system)]
    {
        if let Some(value) = value {
            body[name] = Value::from(value);
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    #[test]
    fn defaults_are_the_documented_ones() {
        let settings = Settings::from_env(&of(&[])).unwrap();
        assert_eq!(settings.approval, Approval::Reject);
        assert_eq!((settings.stall.as_secs(), settings.start.as_secs(), settings.lost.as_secs()), (900, 120, 60));
    }

    #[test]
    fn a_person_is_waited_for_unless_requests_are_approved_beforehand() {
        let check = |mode: &str, auto: bool, expected: (Approval, bool)| {
            let settings = Settings::from_env(&of(&[(env::APPROVAL_MODE, mode)])).unwrap();
            let settings = settings.under(&Arguments { auto, ..Arguments::default() });
            assert_eq!((settings.approval, settings.ask_for_everything), expected, "{mode} {auto}");
        };
        check("", false, (Approval::Reject, false));
        check("Wait", false, (Approval::Wait, false));
        check("Always", false, (Approval::Wait, true));
        check("", true, (Approval::Approve, false));
        check("Wait", true, (Approval::Approve, false));
    }

    #[test]
    fn an_unknown_approval_mode_is_refused() {
        let error = Settings::from_env(&of(&[(env::APPROVAL_MODE, "Sometimes")])).unwrap_err().to_string();
        assert!(error.contains("Reject, Approve, Wait or Always"), "{error}");
    }

    #[test]
    fn a_session_carries_the_tasks_identity() {
        let pairs =
            [(env::TASK_NAMESPACE, "ns"), (env::TASK_NAME, "fix"), (env::TASK_UID, "u-1"), (env::TASK_EPOCH, "2")];
        let settings = Settings::from_env(&of(&pairs)).unwrap();
        assert_eq!(
            session_body(&Arguments::default(), &settings, None),
            json!({"title": "fix", "metadata": {"task": {"namespace": "ns", "name": "fix", "uid": "u-1", "epoch": "2"}}})
        );
        let rules = [Rule { permission: "*".into(), pattern: "*".into(), action: "ask".into() }];
        assert_eq!(
            session_body(&Arguments::default(), &settings, Some(&rules))["permission"],
            json!([{"permission": "*", "pattern": "*", "action": "ask"}])
        );
    }

    #[test]
    fn the_prompt_is_sent_byte_for_byte() {
        let prompt = "  \"quoted\"\r\n\tand é\u{0}  \n";
        let arguments =
            Arguments { model: Some(("p".into(), "m".into())), agent: Some("plan".into()), ..Arguments::default() };
        assert_eq!(
            prompt_body(&arguments, prompt, Some("context")),
            json!({"parts": [{"type": "text", "text": prompt}], "model": {"providerID": "p", "modelID": "m"},
                   "agent": "plan", "system": "context"})
        );
    }
}
