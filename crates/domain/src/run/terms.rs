//! Run terms: the settings that the controller needs after a run was claimed.
//!
//! They are computed once, by [`RunTerms::of`], and written to `status.resolved.terms` together with the claim, so they
//! survive the controller. Everything later reads them with [`RunTerms::recorded`]: editing or deleting the Agent, the
//! template or the configuration changes nothing for a run. Settings that the Pod itself enforces (stall timeout,
//! budget, approval timeout, grace period) are fixed in the Pod and are not repeated here.
//!
//! Two kinds of runs get their terms after the claim: a run whose Pod could not be created yet, because its Pod is built
//! from the settings of then, and a run that an older version claimed.

use std::time::Duration;

use api::{
    Task,
    kinds::task::RunTermsStatus,
    run::{ApprovalMode, Retry},
};

use super::{approval::may_ask, resolve::span, resolved::ResolvedTask};
use crate::{
    platform::Platform,
    workload::{collect, pod::attaches},
};

/// The longest duration that is recorded, 31 years: the schema admits nine digits, and durations are written in
/// seconds.
const LONGEST: Duration = Duration::from_secs(999_999_999);

/// The settings that hold for a run from its claim to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTerms {
    /// The run is stopped after this time, counted from the start of the task container; `None` is no limit.
    pub timeout: Option<Duration>,
    /// Limit from admission to the start of the task container.
    pub startup_timeout: Duration,
    pub retry: Retry,
    /// The run's own claim is kept if the run fails.
    pub retain_workspace: bool,
    /// The agent may ask a person, so the controller polls its server for requests.
    pub asks_approval: bool,
    /// The task container always leaves a report, because it is ours. A user's own attach image need not.
    pub report_required: bool,
    /// From the end of the agent until everything that the run keeps is stored; `None` if it keeps nothing.
    pub collect_timeout: Option<Duration>,
}

impl RunTerms {
    /// The terms of a run that is being claimed.
    pub fn of(task: &ResolvedTask, platform: &Platform) -> Self {
        Self {
            timeout: task.timeout,
            startup_timeout: task.startup_timeout,
            retry: task.retry.clone(),
            retain_workspace: task.workspace.as_ref().is_some_and(|workspace| workspace.retain_on_failure),
            asks_approval: may_ask(task),
            report_required: !attaches(task) || task.agent.attach_image == platform.attach_image,
            collect_timeout: collect::keeps(task, platform).then_some(task.collect_timeout),
        }
    }

    /// The terms on which the current run of `task` was claimed, if they are recorded. A version that does not know terms
    /// may have claimed the run and left the terms of an earlier one in the status.
    pub fn recorded(task: &Task, platform: &Platform) -> Option<Self> {
        let status = task.status.as_ref()?;
        let terms = status.resolved.as_ref()?.terms.as_deref()?;
        (terms.epoch == status.run_epoch).then(|| Self::from_status(terms.clone(), platform))
    }

    /// The form for `status.resolved.terms` of the run `epoch`. Defaults are left out.
    pub fn to_status(&self, epoch: i64) -> RunTermsStatus {
        // Without `..`: a new term does not compile until it is recorded.
        let Self { timeout, startup_timeout, retry, retain_workspace, asks_approval, report_required, collect_timeout } =
            self;
        let written = |span: Duration| api::Duration::from(span.min(LONGEST));
        let retry = Retry { backoff: retry.backoff.map(|backoff| written(backoff.to_std())), ..retry.clone() };
        RunTermsStatus {
            epoch: Some(epoch),
            timeout: timeout.map(written),
            startup_timeout: Some(written(*startup_timeout)),
            retry: Some(retry).filter(|retry| *retry != Retry::default()),
            retain_workspace: retain_workspace.then_some(true),
            asks_approval: asks_approval.then_some(true),
            report_optional: (!report_required).then_some(true),
            collect_timeout: collect_timeout.map(written),
        }
    }

    fn from_status(terms: RunTermsStatus, platform: &Platform) -> Self {
        let RunTermsStatus {
            epoch: _,
            timeout,
            startup_timeout,
            retry,
            retain_workspace,
            asks_approval,
            report_optional,
            collect_timeout,
        } = terms;
        Self {
            timeout: span(timeout),
            startup_timeout: span(startup_timeout).unwrap_or(platform.startup_timeout),
            retry: retry.unwrap_or_default(),
            retain_workspace: retain_workspace.unwrap_or_default(),
            asks_approval: asks_approval.unwrap_or_default(),
            report_required: !report_optional.unwrap_or_default(),
            collect_timeout: span(collect_timeout),
        }
    }

    /// The terms of a run that an older version claimed and whose Agent or template cannot be resolved any more: the
    /// Task's own settings, which cannot change, and otherwise whatever does no harm. Files are kept, an agent that may
    /// ask is watched, exit code 0 is a success, and nothing is tried again.
    pub fn unrecorded(task: &Task, platform: &Platform) -> Self {
        let spec = &task.spec;
        let approval = spec.approval.as_ref();
        Self {
            timeout: span(spec.timeout),
            startup_timeout: span(spec.run.startup_timeout).unwrap_or(platform.startup_timeout),
            retry: spec.run.retry.clone().unwrap_or_default(),
            retain_workspace: spec.workspace.as_ref().is_none_or(|workspace| workspace.retain_on_failure),
            asks_approval: spec.agent_ref.is_some()
                && approval.is_none_or(|approval| approval.mode != ApprovalMode::Never),
            report_required: false,
            collect_timeout: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]

    use api::{Agent, AgentTemplate, kinds::task::ResolvedStatus, run::RetryCause};
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        run::resolve::{Sources, resolve_task},
        sample,
    };

    fn template(spec: &Value) -> AgentTemplate {
        AgentTemplate::new("t", serde_json::from_value(spec.clone()).unwrap())
    }

    fn task(spec: &Value) -> Task {
        Task::new("k", serde_json::from_value(spec.clone()).unwrap())
    }

    /// The Task after the claim: its status went through the API server as JSON.
    fn claimed(task: &Task, target: Sources<'_>, platform: &Platform) -> Task {
        let (resolved, _) = resolve_task(task, target, platform).unwrap();
        let terms = Some(Box::new(RunTerms::of(&resolved, platform).to_status(1)));
        let mut task = task.clone();
        let status = task.status.get_or_insert_default();
        status.run_epoch = Some(1);
        status.resolved = Some(ResolvedStatus { terms, ..ResolvedStatus::default() });
        serde_json::from_value(serde_json::to_value(task).unwrap()).unwrap()
    }

    /// Claims a Task on a template, then edits the configuration: the terms are `expected` before and after.
    #[track_caller]
    fn on_template(template_spec: Value, task_spec: Value, expected: impl FnOnce(&mut RunTerms)) {
        let platform = sample::platform();
        let claimed = claimed(&task(&task_spec), Sources::Template(&template(&template_spec)), &platform);
        holds(&claimed, &platform, expected);
    }

    #[track_caller]
    fn on_agent(agent_spec: Value, template_spec: Value, task_spec: Value, expected: impl FnOnce(&mut RunTerms)) {
        let platform = sample::platform();
        let mut agent = Agent::new("a", serde_json::from_value(agent_spec).unwrap());
        agent.spec.template_ref = Some(api::refs::LocalRef::new("t"));
        let template = template(&template_spec);
        let target = Sources::Agent { agent: &agent, template: Some(&template), url: "http://a" };
        holds(&claimed(&task(&task_spec), target, &platform), &platform, expected);
    }

    #[track_caller]
    fn holds(claimed: &Task, platform: &Platform, expected: impl FnOnce(&mut RunTerms)) {
        let mut terms = RunTerms {
            timeout: None,
            startup_timeout: platform.startup_timeout,
            retry: Retry::default(),
            retain_workspace: false,
            asks_approval: false,
            report_required: true,
            collect_timeout: None,
        };
        expected(&mut terms);
        // Neither the Agent nor the template is an argument: after the claim only the configuration can differ.
        let edited = Platform {
            startup_timeout: Duration::from_secs(1),
            attach_image: "another:1".into(),
            retry: Some(Retry { max_retries: 9, ..Retry::default() }),
            ..platform.clone()
        };
        for platform in [platform, &edited] {
            assert_eq!(RunTerms::recorded(claimed, platform).as_ref(), Some(&terms));
        }
    }

    #[test]
    fn a_run_without_settings_has_the_defaults_of_the_platform_at_its_claim() {
        on_template(json!({}), json!({}), |_| ());
        on_agent(json!({}), json!({}), json!({}), |_| ());
    }

    #[test]
    fn the_timeout_holds() {
        on_template(json!({}), json!({"timeout": "1h30m"}), |terms| terms.timeout = Some(Duration::from_mins(90)));
        // Zero is what tools write for "unset".
        on_template(json!({}), json!({"timeout": "0s"}), |_| ());
    }

    #[test]
    fn the_startup_timeout_holds() {
        let own = json!({"startupTimeout": "1500ms"});
        on_template(own.clone(), json!({}), |terms| terms.startup_timeout = Duration::from_millis(1500));
        on_agent(json!({}), own.clone(), json!({}), |terms| terms.startup_timeout = Duration::from_millis(1500));
        on_template(own, json!({"startupTimeout": "7s"}), |terms| terms.startup_timeout = Duration::from_secs(7));
    }

    #[test]
    fn the_retry_policy_holds() {
        let retry = json!({"retry": {"maxRetries": 2, "causes": ["NonZeroExit"], "backoff": "1m"}});
        let expected = |terms: &mut RunTerms| {
            let causes = Some(vec![RetryCause::NonZeroExit]);
            terms.retry = Retry { max_retries: 2, causes, backoff: Some(Duration::from_mins(1).into()) };
        };
        on_template(retry.clone(), json!({}), expected);
        on_agent(json!({}), retry.clone(), json!({}), expected);
        on_template(json!({}), retry, expected);
    }

    #[test]
    fn the_time_for_collecting_holds_where_something_is_kept() {
        let depot = Platform { depot_url: Some("http://depot".into()), ..sample::platform() };
        let check = |template_spec: Value, task_spec: Value, expected: Option<Duration>| {
            let template = template(&template_spec);
            let (resolved, _) = resolve_task(&task(&task_spec), Sources::Template(&template), &depot).unwrap();
            assert_eq!(RunTerms::of(&resolved, &depot).collect_timeout, expected);
        };
        check(json!({}), json!({}), None);
        let limited = json!({"collectTimeout": "1m"});
        check(limited.clone(), json!({}), None);
        check(limited.clone(), json!({"outputs": ["o"]}), Some(Duration::from_mins(1)));
        check(limited, json!({"outputs": ["o"], "collectTimeout": "2m"}), Some(Duration::from_mins(2)));
        check(json!({"outputs": ["o"]}), json!({}), Some(Duration::from_mins(10)));
    }

    #[test]
    fn the_workspace_is_retained_as_it_was_claimed() {
        for retain in [true, false] {
            let workspace = json!({"workspace": {"accessMode": "ReadWriteOnce", "retainOnFailure": retain}});
            on_template(workspace.clone(), json!({}), |terms| terms.retain_workspace = retain);
            on_agent(workspace.clone(), json!({}), json!({}), |terms| terms.retain_workspace = retain);
            on_template(json!({}), workspace, |terms| terms.retain_workspace = retain);
        }
    }

    #[test]
    fn approval_holds_where_an_agent_has_a_server_to_ask() {
        let ask = json!({"approval": {"mode": "Ask"}});
        on_agent(ask.clone(), json!({}), json!({}), |terms| terms.asks_approval = true);
        on_agent(json!({}), ask.clone(), json!({}), |terms| terms.asks_approval = true);
        on_agent(json!({}), json!({}), ask.clone(), |terms| terms.asks_approval = true);
        on_agent(ask, json!({}), json!({"approval": {"mode": "Never"}}), |_| ());
        on_agent(json!({"command": ["x"], "approval": {"mode": "Ask"}}), json!({}), json!({}), |_| ());
    }

    #[test]
    fn only_an_attach_image_of_the_user_need_not_leave_a_report() {
        let own = json!({"attachImage": "mine:1"});
        on_agent(own.clone(), json!({}), json!({}), |terms| terms.report_required = false);
        on_agent(json!({}), own.clone(), json!({}), |terms| terms.report_required = false);
        // The image is not used there.
        on_template(own, json!({}), |_| ());
        on_agent(json!({"attachImage": "mine:1", "command": ["x"]}), json!({}), json!({}), |_| ());
    }

    #[test]
    fn terms_are_recorded_without_defaults() {
        let platform = sample::platform();
        let plain = RunTerms::of(&sample::task(sample::agent()), &platform).to_status(2);
        assert_eq!(serde_json::to_value(plain).unwrap(), json!({"epoch": 2, "startupTimeout": "300s"}));
    }

    #[test]
    fn a_duration_that_the_schema_would_refuse_is_cut() {
        let mut task = sample::task(sample::agent());
        task.timeout = Some(Duration::from_secs(u64::MAX));
        task.retry.backoff = Some(Duration::from_secs(u64::MAX).into());
        let terms = RunTerms::of(&task, &sample::platform()).to_status(1);
        let longest = json!("999999999s");
        assert_eq!(serde_json::to_value(terms.timeout).unwrap(), longest);
        assert_eq!(serde_json::to_value(terms.retry.unwrap().backoff).unwrap(), longest);
    }

    #[test]
    fn the_terms_of_an_earlier_run_do_not_count() {
        let platform = sample::platform();
        let mut claimed = claimed(&task(&json!({})), Sources::Template(&template(&json!({}))), &platform);
        claimed.status.as_mut().unwrap().run_epoch = Some(2);
        assert_eq!(RunTerms::recorded(&claimed, &platform), None);
    }

    #[test]
    fn a_run_without_terms_and_without_its_agent_has_the_settings_of_its_task_and_does_no_harm() {
        let platform = Platform {
            startup_timeout: Duration::from_mins(7),
            retry: Some(Retry { max_retries: 3, ..Retry::default() }),
            ..sample::platform()
        };
        let unset = RunTerms::unrecorded(&task(&json!({"agentRef": {"name": "a"}})), &platform);
        let expected = RunTerms {
            timeout: None,
            startup_timeout: Duration::from_mins(7),
            retry: Retry::default(),
            retain_workspace: true,
            asks_approval: true,
            report_required: false,
            collect_timeout: None,
        };
        assert_eq!(unset, expected);
        let own = json!({
            "templateRef": {"name": "t"}, "timeout": "1m", "startupTimeout": "2s", "retry": {"maxRetries": 1},
            "workspace": {"retainOnFailure": false},
        });
        let expected = RunTerms {
            timeout: Some(Duration::from_mins(1)),
            startup_timeout: Duration::from_secs(2),
            retry: Retry { max_retries: 1, ..Retry::default() },
            retain_workspace: false,
            asks_approval: false,
            report_required: false,
            collect_timeout: None,
        };
        assert_eq!(RunTerms::unrecorded(&task(&own), &platform), expected);
    }
}
