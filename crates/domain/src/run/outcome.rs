//! How a run ended (invariant I5). Where several causes are true, the first of these counts:
//! cancelled > timeout > disruption > preparation failure > exit code > missing result > results not kept.

use std::time::Duration;

use api::{
    TaskPhase, TaskStatus,
    conditions::reasons,
    kinds::task::{Session, TaskChanges, Usage},
    names::annotations,
    run::RetryCause,
};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use crate::{
    contract::{
        collect::{CollectFailure, CollectReport, FetchReport},
        record,
        report::{RunReport, Verdict},
    },
    duration::spoken,
    run::{
        progress::{
            PREP_CONTAINER, housekeeper_ended, phase, preparing, status, task_container, task_ended, task_started,
        },
        startup::Trouble,
    },
};

mod disruption;

/// Texts from inside a Pod are cut to this many characters in a status.
const LONGEST_QUOTE: usize = 1024;

/// The facts from which the end of a run is decided.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The last seen version of the Pod.
    pub pod: Option<&'a Pod>,
    /// The Pod does not exist any more.
    pub gone: bool,
    /// Why the controller ends the run, if it does.
    pub stop: Option<&'a Stop>,
    /// From the run terms: success needs a report.
    pub report_required: bool,
    /// From the run terms: the run has a housekeeper, and its end counts.
    pub keeps: bool,
}

/// Why the controller ends a run early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A user requested it, or deleted the Task.
    User,
    /// This timeout passed.
    Timeout(Duration),
    /// The Agent of this name was deleted.
    AgentGone(String),
    /// The task cannot start.
    Startup(Trouble),
}

impl Stop {
    /// Stable reason, one of [`reasons`].
    pub fn reason(&self) -> &'static str {
        by_controller(self).reason
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// Completed or Failed.
    pub phase: TaskPhase,
    /// Stable reason, one of [`reasons`].
    pub reason: &'static str,
    /// The reason as a sentence for users.
    pub message: String,
    /// Exit code of the task container, if it ended.
    pub exit_code: Option<i32>,
    /// The run was stopped early: condition Stopped, with [`Ending::reason`].
    pub stopped: bool,
    /// The cluster ended the run: condition Disrupted, with [`Ending::reason`].
    pub disrupted: bool,
    /// The cause by which a retry policy covers this end; `None` is never retried.
    pub retry: Option<RetryCause>,
    /// The report that the run left, if it left one.
    pub report: Option<RunReport>,
}

impl Ending {
    /// Whether the agent finished its work.
    pub fn succeeded(&self) -> bool {
        self.phase == TaskPhase::Completed && !self.stopped
    }

    /// Tokens and cost, for `status.usage`.
    pub fn usage(&self) -> Option<Usage> {
        self.report.as_ref().map(RunReport::usage)
    }

    /// The session, for `status.session`; the title is the controller's.
    pub fn session(&self) -> Option<Session> {
        self.report.as_ref().map(RunReport::session)
    }

    /// The changes in the workspace, for `status.changes`.
    pub fn changes(&self) -> Option<TaskChanges> {
        self.report.as_ref().and_then(RunReport::changes)
    }

    /// The final answer of the agent, for `status.result.summary`.
    pub fn summary(&self) -> Option<&str> {
        self.report.as_ref().map(|report| report.summary.as_str()).filter(|summary| !summary.is_empty())
    }

    fn failed(reason: &'static str, message: impl Into<String>, retry: Option<RetryCause>) -> Self {
        Self {
            phase: TaskPhase::Failed,
            reason,
            message: message.into(),
            exit_code: None,
            stopped: false,
            disrupted: false,
            retry,
            report: None,
        }
    }

    fn stopped(phase: TaskPhase, reason: &'static str, message: impl Into<String>) -> Self {
        Self { phase, stopped: true, ..Self::failed(reason, message, None) }
    }
}

/// Whether a Task was stopped: it ended before its own end without failing, by its user or its timeout. Lists and totals
/// call such a Task Stopped, not Completed.
pub fn is_stopped(status: &TaskStatus) -> bool {
    let reason = status.reason.as_deref();
    status.phase == Some(TaskPhase::Completed) && matches!(reason, Some(reasons::USER_STOPPED | reasons::TIMEOUT))
}

/// How the run ended, or `None` if it has not.
pub fn classify(evidence: &Evidence<'_>) -> Option<Ending> {
    if !has_ended(evidence) {
        return None;
    }
    let terminated = evidence.pod.and_then(task_ended);
    let report = evidence.pod.and_then(RunReport::of);
    let mut ending = evidence
        .stop
        .map(by_controller)
        .or_else(|| evidence.pod.and_then(deadline))
        .or_else(|| disruption::find(evidence, report.as_ref()))
        .or_else(|| evidence.pod.and_then(preparation))
        .unwrap_or_else(|| by_itself(terminated, report.as_ref(), evidence.report_required));
    if ending.succeeded()
        && evidence.keeps
        && let Some(failure) = not_kept(evidence.pod)
    {
        ending = failure;
    }
    ending.exit_code = terminated.map(|state| state.exit_code);
    ending.report = report;
    Some(ending)
}

/// Why a run that succeeded fails nevertheless: what it had to leave is not in the store.
fn not_kept(pod: Option<&Pod>) -> Option<Ending> {
    let failed = |reason, message: String| Some(Ending::failed(reason, message, None));
    let Some(state) = pod.and_then(housekeeper_ended) else {
        let message = "the Pod was lost before the results of the run were stored";
        return failed(reasons::COLLECT_FAILED, message.to_owned());
    };
    let Some(report) = collected(pod?) else {
        let detail = quote(state.message.as_deref());
        return failed(
            reasons::COLLECT_FAILED,
            format!("the container that stores results {}{detail}", how_it_ended(state)),
        );
    };
    let failure = report.failure?;
    let reason = match failure.reason {
        CollectFailure::ArtifactMissing => reasons::ARTIFACT_MISSING,
        CollectFailure::OutputMissing => reasons::OUTPUT_MISSING,
        CollectFailure::PublishFailed => reasons::PUBLISH_FAILED,
        CollectFailure::CollectFailed | CollectFailure::Unknown => reasons::COLLECT_FAILED,
    };
    failed(reason, shortened(&failure.message))
}

/// Why results of a run are not kept, if that did not decide how the run ended.
pub fn results_lost(evidence: &Evidence<'_>, ending: &Ending) -> Option<String> {
    let pod = evidence.pod.filter(|pod| evidence.keeps && task_started(pod))?;
    let state = task_container(pod)?.state.as_ref()?;
    if state.running.is_none() && state.terminated.is_none() {
        return None;
    }
    not_kept(Some(pod)).filter(|lost| lost.reason != ending.reason).map(|lost| lost.message)
}

/// The report of the housekeeper of a run, if it left one.
pub fn collected(pod: &Pod) -> Option<CollectReport> {
    CollectReport::read(housekeeper_ended(pod)?.message.as_deref()?)
}

/// The report of the container that fetched inputs and caches, if there was one.
pub fn fetched(pod: &Pod) -> Option<FetchReport> {
    let prep = preparing(pod).find(|container| container.name == PREP_CONTAINER)?;
    FetchReport::read(prep.state.as_ref()?.terminated.as_ref()?.message.as_deref()?)
}

fn has_ended(evidence: &Evidence<'_>) -> bool {
    let over = |pod: &Pod| {
        let collects = evidence.keeps && housekeeper_ended(pod).is_none();
        matches!(phase(pod), Some("Succeeded" | "Failed")) || (task_ended(pod).is_some() && !collects)
    };
    evidence.gone || evidence.pod.is_some_and(over)
}

/// Ends that the controller decided: cancelled, timeout, Agent deleted, not started.
fn by_controller(stop: &Stop) -> Ending {
    match stop {
        Stop::User => Ending::stopped(TaskPhase::Completed, reasons::USER_STOPPED, "a user stopped the Task"),
        Stop::Timeout(limit) => out_of_time(&spoken(*limit)),
        Stop::AgentGone(name) => {
            Ending::failed(reasons::AGENT_GONE, format!("Agent '{name}' was deleted while the Task ran on it"), None)
        }
        Stop::Startup(trouble) => Ending::failed(trouble.reason, trouble.message.clone(), Some(RetryCause::Startup)),
    }
}

/// The Pod's own deadline, which the node enforces when no controller is there to do it.
fn deadline(pod: &Pod) -> Option<Ending> {
    // The controller ends a housekeeper that does not end by itself in the same way.
    let ended_for = pod.metadata.annotations.as_ref().and_then(|all| all.get(annotations::ENDED_FOR));
    if ended_for.is_some_and(|reason| reason == reasons::COLLECT_FAILED) {
        return None;
    }
    let limit = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
    let limit = Duration::from_secs(limit.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default());
    (status(pod)?.reason.as_deref() == Some("DeadlineExceeded")).then(|| out_of_time(&spoken(limit)))
}

fn out_of_time(limit: &str) -> Ending {
    let message = format!("the Task ran for {limit}, as long as spec.timeout allows, and was stopped");
    Ending::stopped(TaskPhase::Completed, reasons::TIMEOUT, message)
}

/// An init container failed, or the task container could not be started.
fn preparation(pod: &Pod) -> Option<Ending> {
    let failed = |message| Some(Ending::failed(reasons::PREPARATION_FAILED, message, Some(RetryCause::Startup)));
    if let Some(state) = task_ended(pod) {
        // The runtime reports a command that is not in the image as an exit of the container.
        let unstarted = matches!(state.reason.as_deref(), Some("StartError" | "ContainerCannotRun"));
        let detail = quote(state.message.as_deref());
        return if unstarted { failed(format!("the task container could not be started{detail}")) } else { None };
    }
    let started =
        task_container(pod).and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some());
    if started {
        return None;
    }
    for container in preparing(pod) {
        let Some(state) = container.state.as_ref().and_then(|state| state.terminated.as_ref()) else { continue };
        if state.exit_code != 0 {
            let how = how_it_ended(state);
            let detail = quote(state.message.as_deref());
            return failed(format!("{} ({}) {how}{detail}", step(&container.name), container.name));
        }
    }
    None
}

/// The purpose of one of our init containers, for messages.
fn step(container: &str) -> &'static str {
    match container.split_once("-init").map_or(container, |(what, _)| what) {
        "opencode" => "copying OpenCode into the Pod",
        "context" => "putting contexts in place",
        "git" => "cloning a repository",
        "url" => "fetching a document",
        "plugin" => "installing plugins",
        "prep" => "fetching inputs",
        _ => "a container that runs before the task",
    }
}

fn how_it_ended(state: &ContainerStateTerminated) -> String {
    match state.exit_code {
        _ if state.reason.as_deref() == Some("OOMKilled") => "needed more memory than its limit".to_owned(),
        137 => "was killed (exit code 137)".to_owned(),
        143 => "was asked to stop (exit code 143)".to_owned(),
        code => format!("failed with exit code {code}"),
    }
}

/// The end by exit code and report. Success needs both.
fn by_itself(state: Option<&ContainerStateTerminated>, report: Option<&RunReport>, report_required: bool) -> Ending {
    let Some(state) = state else {
        let message = "the Pod ended before the task container started; `kubectl describe pod` may say why";
        return Ending::failed(reasons::PREPARATION_FAILED, message, Some(RetryCause::Startup));
    };
    let failed = |reason, message| Ending::failed(reason, message, Some(RetryCause::NonZeroExit));
    if state.reason.as_deref() == Some("OOMKilled") {
        let message = "the task needed more memory than its limit; raise podSpec.resources.limits.memory";
        return failed(reasons::OOM_KILLED, message.to_owned());
    }
    match (state.exit_code, report) {
        (_, Some(report)) if report.outcome == Verdict::Failed => {
            let reason = report.known_reason().filter(|reason| *reason != reasons::SUCCEEDED);
            let message = match shortened(&report.message) {
                message if message.is_empty() => format!("the task {}", how_it_ended(state)),
                message => message,
            };
            if reason == Some(reasons::BUDGET_EXCEEDED) {
                // Usage is counted inside the Pod, so the helper in the Pod ends the run.
                return Ending::stopped(TaskPhase::Failed, reasons::BUDGET_EXCEEDED, message);
            }
            failed(reason.unwrap_or(reasons::NON_ZERO_EXIT), message)
        }
        (0, None) if report_required => {
            failed(reasons::RESULT_MISSING, "the task ended without leaving a result; the log may say why".to_owned())
        }
        (0, _) => Ending {
            phase: TaskPhase::Completed,
            retry: None,
            ..failed(reasons::SUCCEEDED, "the agent finished its work".to_owned())
        },
        (_, Some(_)) => {
            let how = how_it_ended(state);
            failed(reasons::NON_ZERO_EXIT, format!("the agent finished its work, but the task container {how}"))
        }
        (_, None) => {
            let detail = quote(state.message.as_deref());
            failed(reasons::NON_ZERO_EXIT, format!("the task command {}{detail}", how_it_ended(state)))
        }
    }
}

/// A detail from inside the Pod, appended to a sentence.
fn quote(text: Option<&str>) -> String {
    // With FallbackToLogsOnError the message is the end of a log.
    match shortened(&record::visible_end(text.unwrap_or_default())) {
        text if text.is_empty() => String::new(),
        text => format!(": {text}"),
    }
}

/// The end of a long text, because errors come last.
fn shortened(text: &str) -> String {
    let text = text.trim();
    let length = text.chars().count();
    if length <= LONGEST_QUOTE {
        return text.to_owned();
    }
    let end: String = text.chars().skip(length - LONGEST_QUOTE).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests;
