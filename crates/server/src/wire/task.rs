//! Tasks on the wire.

use std::collections::BTreeMap;

use api::{
    Task, TaskPhase, TaskStatus,
    conditions::types,
    context::ContextItem,
    kinds::task::{CacheStatus, LogStatus, PublishedStatus, Session, Usage},
    names::{annotations, labels},
    run::{Approval, Artifact, Dependency, Retry, RunBudget, Workspace},
    tools::ToolBinding,
};
use domain::run::title::title;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    Condition, Identity, NameRef, conditions,
    piece::{one_of, piece, pieces},
    time,
};
use crate::wire::duration;

/// In lists a description is cut after this many characters.
const SHORT: usize = 1000;

/// A Task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskResponse {
    #[serde(flatten)]
    pub identity: Identity,
    #[schema(schema_with = piece::<TaskPhase>)]
    pub phase: TaskPhase,
    /// First line of the description, at most 120 characters.
    pub title: Option<String>,
    /// User who created the Task through the REST API, as kubeopencode.io/created-by records.
    pub created_by: Option<String>,
    /// Program that created the Task (its field manager); only in details.
    pub created_with: Option<String>,
    /// Description. Lists hold the first 1000 characters.
    pub description: Option<String>,
    /// Agent of the Task.
    pub agent_ref: Option<NameRef>,
    /// AgentTemplate of the Task.
    pub template_ref: Option<NameRef>,
    /// Stop after this time.
    pub timeout: Option<String>,
    /// Pod of the current run.
    pub pod_name: Option<String>,
    /// The OpenCode session.
    #[schema(schema_with = piece::<Session>)]
    pub session: Option<Session>,
    /// When the work began.
    pub start_time: Option<Timestamp>,
    /// Time of completion.
    pub completion_time: Option<Timestamp>,
    /// Duration so far, such as 1m5s.
    pub duration: Option<String>,
    /// The same in seconds.
    pub duration_seconds: Option<i64>,
    /// Details, by type.
    pub conditions: Vec<Condition>,
    /// Our own annotations (kubeopencode.io/…).
    pub annotations: Option<BTreeMap<String, String>>,
    /// Machine-readable reason for waiting or for the outcome.
    pub reason: Option<String>,
    /// Message for people.
    pub message: Option<String>,
    /// Exit code of the task container.
    pub exit_code: Option<i32>,
    /// Place in the queue, 1 being next.
    pub queue_position: Option<i32>,
    /// Higher goes first.
    pub priority: i32,
    /// Number of the current run.
    pub run_epoch: Option<i64>,
    /// Number of tries so far.
    pub attempt: Option<i32>,
    /// When the stages before the start were reached.
    pub timings: Option<Timings>,
    /// Tokens and cost.
    #[schema(schema_with = piece::<Usage>)]
    pub usage: Option<Usage>,
    /// Result of the run.
    pub result: Option<TaskOutcome>,
    /// State of the archived log.
    pub logs: Option<LogState>,
    /// CronTask that created the Task.
    pub cron_task: Option<String>,
    /// Tasks that must end first.
    #[schema(schema_with = pieces::<Dependency>)]
    pub depends_on: Option<Vec<Dependency>>,
    /// Contexts; only in details.
    #[schema(schema_with = pieces::<ContextItem>)]
    pub contexts: Option<Vec<ContextItem>>,
    /// A stop was requested.
    pub stop_requested: bool,
    /// The agent waits for a person's permission.
    pub awaiting_approval: bool,
    /// Caches that the run used.
    #[schema(schema_with = pieces::<CacheStatus>)]
    pub caches: Option<Vec<CacheStatus>>,
    /// Where the changes were published.
    #[schema(schema_with = piece::<PublishedStatus>)]
    pub published: Option<PublishedStatus>,
}

/// When the stages before the start were reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timings {
    pub queued_at: Option<Timestamp>,
    pub admitted_at: Option<Timestamp>,
    pub pod_created_at: Option<Timestamp>,
    pub scheduled_at: Option<Timestamp>,
    pub prepared_at: Option<Timestamp>,
    pub collected_at: Option<Timestamp>,
}

impl Timings {
    /// The times of the stages, in order. Kubernetes rounds some of them down to a second, which could put a stage
    /// before the previous one.
    fn of(known: &api::kinds::task::TaskTimings) -> Self {
        let mut latest = Timestamp::MIN;
        let mut stage = |at: Option<&Time>| {
            let at = time(at)?.max(latest);
            latest = at;
            Some(at)
        };
        Self {
            queued_at: stage(known.queued_at.as_ref()),
            admitted_at: stage(known.admitted_at.as_ref()),
            pod_created_at: stage(known.pod_created_at.as_ref()),
            scheduled_at: stage(known.scheduled_at.as_ref()),
            prepared_at: stage(known.prepared_at.as_ref()),
            collected_at: stage(known.collected_at.as_ref()),
        }
    }
}

/// The result of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TaskOutcome {
    /// The final answer, shortened.
    pub summary: Option<String>,
    /// Declared outputs; only in details.
    pub outputs: Option<BTreeMap<String, String>>,
}

/// State of an archived log.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogState {
    pub lines: Option<i64>,
    pub bytes: Option<i64>,
    pub complete: Option<bool>,
    /// How often lines are missing in between.
    pub gaps: Option<i32>,
    /// When the log was removed, because of its age or for space.
    pub expired_at: Option<Timestamp>,
}

impl From<&LogStatus> for LogState {
    fn from(logs: &LogStatus) -> Self {
        let expired_at = logs.expired_at.as_ref().map(|at| at.0);
        Self { lines: logs.lines, bytes: logs.bytes, complete: logs.complete, gaps: logs.gaps, expired_at }
    }
}

/// Start and end of a run, and its duration so far in seconds.
struct Span {
    start_time: Option<Timestamp>,
    completion_time: Option<Timestamp>,
    took: Option<i64>,
}

impl Span {
    fn of(status: &TaskStatus, now: Timestamp) -> Self {
        let start_time = time(status.start_time.as_ref());
        let completion_time = time(status.completion_time.as_ref());
        let took = start_time.map(|start| completion_time.unwrap_or(now).duration_since(start).as_secs().max(0));
        Self { start_time, completion_time, took }
    }
}

/// The runs of a Task.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Runs {
    /// The latest first.
    pub runs: Vec<RunResponse>,
}

/// One run of a Task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResponse {
    /// Number, starting at 1.
    pub run: i64,
    /// Running, Completed or Failed; unset if the run record cannot be read.
    #[schema(schema_with = piece::<TaskPhase>)]
    pub phase: Option<TaskPhase>,
    /// Machine-readable reason for the outcome.
    pub reason: Option<String>,
    /// Message for people.
    pub message: Option<String>,
    /// Exit code of the task container.
    pub exit_code: Option<i32>,
    /// Number of tries up to this one.
    pub attempt: Option<i32>,
    /// When the task container started.
    pub start_time: Option<Timestamp>,
    /// When the run ended.
    pub completion_time: Option<Timestamp>,
    /// Duration so far, such as 1m5s.
    pub duration: Option<String>,
    /// Tokens and cost.
    #[schema(schema_with = piece::<Usage>)]
    pub usage: Option<Usage>,
    /// The final answer, shortened.
    pub summary: Option<String>,
    /// State of the archived log.
    pub logs: Option<LogState>,
    /// Caches that the run used.
    #[schema(schema_with = pieces::<CacheStatus>)]
    pub caches: Option<Vec<CacheStatus>>,
    /// Where the changes were published.
    #[schema(schema_with = piece::<PublishedStatus>)]
    pub published: Option<PublishedStatus>,
}

impl RunResponse {
    /// A run whose status is, or was in the end, `status`.
    pub fn of(status: TaskStatus, now: Timestamp) -> Self {
        let Span { start_time, completion_time, took } = Span::of(&status, now);
        Self {
            run: status.run_epoch.unwrap_or_default(),
            phase: status.phase,
            reason: status.reason,
            message: status.message,
            exit_code: status.exit_code,
            attempt: status.attempt,
            start_time,
            completion_time,
            duration: took.map(duration::seconds_text),
            usage: status.usage,
            summary: status.result.and_then(|result| result.summary),
            logs: status.logs.as_ref().map(LogState::from),
            caches: status.caches,
            published: status.published,
        }
    }
}

impl TaskResponse {
    /// The whole Task.
    pub fn detail(task: &Task, now: Timestamp) -> Self {
        let mut response = Self::short(task, now);
        response.description.clone_from(&task.spec.description);
        response.contexts.clone_from(&task.spec.contexts);
        response.created_with = created_with(task);
        if let Some(result) = &mut response.result {
            let known = task.status.as_ref().and_then(|status| status.result.as_ref());
            result.outputs = known.and_then(|result| result.outputs.clone());
        }
        response
    }

    /// The Task as lists show it.
    pub fn short(task: &Task, now: Timestamp) -> Self {
        let none = TaskStatus::default();
        let (spec, status) = (&task.spec, task.status.as_ref().unwrap_or(&none));
        let Span { start_time, completion_time, took } = Span::of(status, now);
        let all = task.metadata.annotations.as_ref();
        let ours = |(key, _): &(&String, &String)| key.starts_with("kubeopencode.io/");
        let annotations: BTreeMap<_, _> =
            all.into_iter().flatten().filter(ours).map(|(key, value)| (key.clone(), value.clone())).collect();
        let is_true = |kind| {
            let mut known = status.conditions.iter().flatten();
            known.any(|condition| condition.type_ == kind && condition.status == "True")
        };
        Self {
            identity: Identity::of(task),
            phase: status.phase.unwrap_or_default(),
            title: spec.description.as_deref().and_then(title),
            created_by: annotations.get(annotations::CREATED_BY).cloned(),
            created_with: None,
            description: spec.description.as_deref().map(shortened),
            agent_ref: spec.agent_ref.as_ref().map(NameRef::from),
            template_ref: spec.template_ref.as_ref().map(NameRef::from),
            timeout: spec.timeout.and_then(api::Duration::nonzero).map(duration::text),
            pod_name: status.pod_name.clone(),
            session: status.session.clone(),
            start_time,
            completion_time,
            duration: took.map(duration::seconds_text),
            duration_seconds: took,
            conditions: conditions(status.conditions.as_ref()),
            reason: status.reason.clone(),
            message: status.message.clone(),
            exit_code: status.exit_code,
            queue_position: status.queue_position,
            priority: spec.priority,
            run_epoch: status.run_epoch,
            attempt: status.attempt,
            timings: status.timings.as_ref().map(Timings::of),
            usage: status.usage.clone(),
            result: status.result.as_ref().map(|result| TaskOutcome { summary: result.summary.clone(), outputs: None }),
            logs: status.logs.as_ref().map(LogState::from),
            cron_task: task.metadata.labels.as_ref().and_then(|labels| labels.get(labels::CRON_TASK)).cloned(),
            depends_on: spec.depends_on.clone().filter(|others| !others.is_empty()),
            contexts: None,
            stop_requested: annotations.get(annotations::STOP).is_some_and(|value| value == "true"),
            awaiting_approval: is_true(types::AWAITING_APPROVAL),
            caches: status.caches.clone(),
            published: status.published.clone(),
            annotations: (!annotations.is_empty()).then_some(annotations),
        }
    }
}

/// The field manager of the first write, status excepted.
fn created_with(task: &Task) -> Option<String> {
    let writes = task.metadata.managed_fields.iter().flatten().filter(|write| write.subresource.is_none());
    writes.min_by_key(|write| write.time.as_ref().map(|time| time.0))?.manager.clone()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A Task to create, in short.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTask {
    /// Name; generated if empty.
    pub name: Option<String>,
    /// Description of the work.
    pub description: String,
    /// Agent to run on; exactly one of agentRef and templateRef.
    pub agent_ref: Option<NameRef>,
    /// Template to make a Pod from.
    pub template_ref: Option<NameRef>,
    /// Stop after this time, such as 30m.
    pub timeout: Option<String>,
    /// Higher goes first in the queue.
    pub priority: Option<i32>,
    /// Contexts: Text, ConfigMap, Git, Runtime or URL, as in the Task's spec.
    #[schema(value_type = Option<Vec<Object>>)]
    pub contexts: Option<Vec<Value>>,
    /// Tasks that must end first.
    #[schema(value_type = Option<Vec<Object>>)]
    pub depends_on: Option<Vec<Dependency>>,
    /// Labels of the Task.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the Task.
    pub annotations: Option<BTreeMap<String, String>>,
    #[schema(value_type = Option<Object>)]
    pub budget: Option<RunBudget>,
    #[schema(value_type = Option<Object>)]
    pub approval: Option<Approval>,
    #[schema(value_type = Option<Object>)]
    pub retry: Option<Retry>,
    #[schema(value_type = Option<Object>)]
    pub workspace: Option<Workspace>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub artifacts: Option<Vec<Artifact>>,
    pub outputs: Option<Vec<String>>,
    pub startup_timeout: Option<String>,
    pub stall_timeout: Option<String>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub instruction_refs: Option<Vec<api::refs::ObjectRef>>,
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<ToolBinding>>,
}

/// The containers of a Task's Pod.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Containers {
    pub containers: Vec<ContainerState>,
}

/// One container of a Task's Pod.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerState {
    /// Its name.
    pub name: String,
    /// Whether this is an init container.
    pub init: bool,
    #[schema(schema_with = container_state)]
    pub state: String,
    /// Exit code, if terminated.
    pub exit_code: Option<i32>,
}

fn container_state() -> RefOr<Schema> {
    one_of(["waiting", "running", "terminated"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_show_the_beginning_of_a_long_description_and_details_all_of_it() {
        let text = "ä".repeat(SHORT + 5);
        let task: Task = serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"description": text, "agentRef": {"name": "dev"}},
        }))
        .unwrap();
        let short = TaskResponse::short(&task, Timestamp::UNIX_EPOCH).description.unwrap();
        assert_eq!(short.chars().count(), SHORT + 1);
        assert_eq!(TaskResponse::detail(&task, Timestamp::UNIX_EPOCH).description, Some(text));
    }

    #[test]
    fn lists_and_events_have_what_a_run_left_except_its_outputs() {
        let task: Task = serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"agentRef": {"name": "dev"}},
            "status": {"caches": [{"name": "npm", "hit": "Exact"}], "published": {"branch": "agents/a"},
                "result": {"summary": "Done.", "outputs": {"answer": "42"}}},
        }))
        .unwrap();
        // The page replaces what it shows by the short form when the Task changes.
        let short = serde_json::to_value(TaskResponse::short(&task, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(short["caches"], json!([{"name": "npm", "hit": "Exact"}]));
        assert_eq!(short["published"], json!({"branch": "agents/a"}));
        assert_eq!(short["result"], json!({"summary": "Done."}));
        let detail = serde_json::to_value(TaskResponse::detail(&task, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(detail["result"]["outputs"], json!({"answer": "42"}));
    }

    #[test]
    fn a_rounded_time_puts_no_stage_before_the_one_that_it_follows() {
        let task: Task = serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"agentRef": {"name": "dev"}},
            "status": {"timings": {"queuedAt": "2026-01-01T00:00:00.2Z", "admittedAt": "2026-01-01T00:00:00.7Z",
                "podCreatedAt": "2026-01-01T00:00:00Z", "preparedAt": "2026-01-01T00:00:03Z"}},
        }))
        .unwrap();
        let timings = TaskResponse::short(&task, Timestamp::UNIX_EPOCH).timings.unwrap();
        assert_eq!(timings.pod_created_at, timings.admitted_at);
        assert_eq!(timings.prepared_at, Some("2026-01-01T00:00:03Z".parse().unwrap()));
        assert_eq!(timings.scheduled_at, None);
    }

    #[test]
    fn a_task_without_a_status_is_pending_and_says_nothing_that_it_does_not_know() {
        let task: Task = serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"agentRef": {"name": "dev"}},
        }))
        .unwrap();
        let wire = serde_json::to_value(TaskResponse::detail(&task, Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(
            wire,
            json!({"name": "a", "namespace": "n", "phase": "Pending", "agentRef": {"name": "dev"}, "conditions": [],
                "priority": 0, "stopRequested": false, "awaitingApproval": false})
        );
    }
}
