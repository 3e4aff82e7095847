//! Task: one piece of work for an agent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    context::ContextItem,
    refs::{LocalRef, ObjectRef},
    run::{Approval, Dependency, Input, Retry, RunBudget, RunSettings, Values, Workspace},
    schema::{Duration, IntoRule as _},
    tools::ToolBinding,
    workload::ImageBuild,
};

/// One unit of work for an agent, described in natural language.
///
/// It runs either on an Agent (`agentRef`), whose server keeps running, or in a Pod of its own made from an
/// AgentTemplate (`templateRef`).
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "kubeopencode.io",
    version = "v1alpha1",
    kind = "Task",
    plural = "tasks",
    shortname = "tk",
    category = "kubeopencode",
    namespaced,
    status = "TaskStatus",
    derive = "PartialEq",
    doc = "One unit of work for an agent, described in natural language.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Agent", type_ = "string", json_path = ".status.agentRef.name"),
    printcolumn(name = "Template", type_ = "string", json_path = ".status.templateRef.name", priority = 1),
    printcolumn(name = "Pod", type_ = "string", json_path = ".status.podName"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Queue", type_ = "integer", json_path = ".status.queuePosition", priority = 1),
    printcolumn(name = "Cost", type_ = "string", json_path = ".status.usage.cost", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = ("self.metadata.name.size() <= 63", "a Task's name has at most 63 characters: it becomes a label of its Pod").into_rule(),
    validation = ("!has(oldSelf.status) || !has(oldSelf.status.runEpoch) || self.spec == oldSelf.spec", "spec cannot change once the Task was admitted: create a new Task, or annotate it with kubeopencode.io/rerun to run it again").into_rule()
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("has(self.agentRef) || has(self.templateRef)", "either agentRef or templateRef must be specified").into_rule())]
#[x_kube(validation = ("!(has(self.agentRef) && has(self.templateRef))", "only one of agentRef or templateRef can be specified").into_rule())]
#[x_kube(validation = ("!has(self.templateRef) || self.templateRef.name.matches('^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$')", "the name in templateRef has only a-z, 0-9, '-' and '.', and at most 63 characters: it becomes a label").into_rule())]
pub struct TaskSpec {
    /// Description of the work; the agent gets it as its prompt and as `task.md`.
    #[schemars(length(max = 1_048_576))]
    pub description: Option<String>,
    /// Contexts of this Task, after the Agent's own contexts.
    #[schemars(length(max = 64))]
    pub contexts: Option<Vec<ContextItem>>,
    /// Agent to run on. Exactly one of `agentRef` and `templateRef` must be set.
    pub agent_ref: Option<LocalRef>,
    /// Template to make a Pod from. Exactly one of `agentRef` and `templateRef` must be set.
    pub template_ref: Option<LocalRef>,
    /// Stop the run after this time, counted from the start of the task container.
    pub timeout: Option<Duration>,
    /// Higher goes first in the queue; equal priorities go by age.
    #[serde(default)]
    pub priority: i32,
    /// Where the files of the run live.
    pub workspace: Option<Workspace>,
    /// Settings that a template can set too.
    #[serde(flatten)]
    pub run: RunSettings,
    /// Artefacts of other Tasks, put in place before the start.
    #[schemars(length(max = 64))]
    pub inputs: Option<Vec<Input>>,
    /// A run without any event for this long ends; 15m when unset.
    pub stall_timeout: Option<Duration>,
    /// Build the executor image from a repository.
    pub executor_image_build: Option<ImageBuild>,
    /// Tasks that must end first.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["task".into()]))]
    pub depends_on: Option<Vec<Dependency>>,
    /// Further instructions, before contexts.
    #[schemars(length(max = 100))]
    pub instruction_refs: Option<Vec<ObjectRef>>,
    /// Further tools.
    #[schemars(length(max = 64))]
    pub tools: Option<Vec<ToolBinding>>,
    /// Limits of tokens and cost of each run. Of this, the Agent's budget and the platform's, the smallest counts.
    pub budget: Option<RunBudget>,
    /// How permission requests are answered.
    pub approval: Option<Approval>,
}

/// Observed state of a Task.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// Generation that this status speaks of.
    pub observed_generation: Option<i64>,
    /// The stage that the Task is in.
    pub phase: Option<TaskPhase>,
    /// Agent that it runs on.
    pub agent_ref: Option<LocalRef>,
    /// Template that it was made from.
    pub template_ref: Option<LocalRef>,
    /// Pod of the current run.
    pub pod_name: Option<String>,
    /// UID of that Pod.
    #[serde(rename = "podUID")]
    pub pod_uid: Option<String>,
    /// Number of the current run. Each run has its own Pod, log and result.
    pub run_epoch: Option<i64>,
    /// Version of the Task that the current run was claimed on. What became of its Pod can be replayed from there.
    pub claimed_from: Option<String>,
    /// Number of tries so far, the current one included.
    pub attempt: Option<i32>,
    /// Machine-readable reason for waiting or ending.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub message: Option<String>,
    /// Exit code of the task container.
    pub exit_code: Option<i32>,
    /// Place in the queue, 1 being next.
    pub queue_position: Option<i32>,
    /// When the stages before the start were reached.
    pub timings: Option<TaskTimings>,
    /// When the task container started.
    pub start_time: Option<Time>,
    /// When the run ended.
    pub completion_time: Option<Time>,
    /// The OpenCode session.
    pub session: Option<Session>,
    /// Tokens and cost.
    pub usage: Option<Usage>,
    /// Result of the run.
    pub result: Option<TaskResult>,
    /// Changes in the workspace. Unset while the run continues, and if the workspace could not be compared.
    pub changes: Option<TaskChanges>,
    /// Files that were kept.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub artifacts: Option<Vec<ArtifactStatus>>,
    /// Caches that the run used.
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub caches: Option<Vec<CacheStatus>>,
    /// Where the changes were published.
    pub published: Option<PublishedStatus>,
    /// Where the log is and whether it is whole.
    pub logs: Option<LogStatus>,
    /// The settings that the run used.
    pub resolved: Option<ResolvedStatus>,
    /// Value of the rerun annotation that was acted on.
    pub observed_rerun: Option<String>,
    /// Details, by type.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,
}

/// Stages of a Task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TaskPhase {
    /// Accepted, nothing decided.
    #[default]
    Pending,
    /// It waits; condition Queued says what for.
    Queued,
    /// It was admitted and runs.
    Running,
    /// It ended well, or was stopped.
    Completed,
    /// It ended badly; reason and message say why.
    Failed,
}

impl TaskPhase {
    /// Whether nothing happens any more.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    /// Machine-readable reason.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Queued => "Queued",
            Self::Running => "Running",
            Self::Completed => "Completed",
            Self::Failed => "Failed",
        }
    }
}

/// When the stages before the start were reached.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskTimings {
    /// It began to wait.
    pub queued_at: Option<Time>,
    /// It was admitted.
    pub admitted_at: Option<Time>,
    /// Its Pod was created.
    pub pod_created_at: Option<Time>,
    /// A node took the Pod.
    pub scheduled_at: Option<Time>,
    /// Contexts and inputs were in place.
    pub prepared_at: Option<Time>,
    /// Artefacts, outputs and caches were stored, and changes were published.
    pub collected_at: Option<Time>,
}

/// The OpenCode session of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its id on the server.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// What happened in it.
    pub summary: Option<SessionSummary>,
}

/// Numbers of a session.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// Messages of all roles.
    pub message_count: Option<i32>,
    /// Tokens by kind.
    pub token_usage: Option<TokenUsage>,
    /// Cost as a decimal number.
    pub cost: Option<String>,
    /// Files that changed.
    pub files_changed: Option<i32>,
    /// Lines added.
    pub additions: Option<i32>,
    /// Lines removed.
    pub deletions: Option<i32>,
}

/// Tokens by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUsage {
    /// Sent to the model.
    #[serde(default)]
    pub input: i64,
    /// Written by the model.
    #[serde(default)]
    pub output: i64,
    /// Spent on reasoning.
    #[serde(default)]
    pub reasoning: i64,
    /// Read from or written to the provider's cache.
    #[serde(default)]
    pub cache: i64,
}

/// Tokens and cost of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens by kind.
    pub tokens: Option<TokenUsage>,
    /// Cost as a decimal number.
    pub cost: Option<String>,
}

/// Result of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResult {
    /// Where the whole result is kept.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Declared outputs.
    pub outputs: Option<Values>,
    /// The agent's final answer, shortened.
    pub summary: Option<String>,
}

/// The changes of a run in its workspace, compared before and after the run. Ignored files are not compared.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskChanges {
    /// Number of files that were added, changed, renamed or deleted.
    pub files: Option<i64>,
    /// Lines added.
    pub insertions: Option<i64>,
    /// Lines removed.
    pub deletions: Option<i64>,
    /// Number of commits that the run added to local branches.
    pub commits: Option<i64>,
    /// What the comparison does not cover, such as other Tasks that worked in the same workspace.
    pub note: Option<String>,
}

/// Files that were kept.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactStatus {
    /// Name of the artefact.
    pub name: String,
    /// Where it is kept.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Its size.
    pub bytes: Option<i64>,
    /// Number of its files.
    pub files: Option<i64>,
    /// SHA-256 of the archive.
    pub digest: Option<String>,
    /// Time of removal.
    pub expires_at: Option<Time>,
}

/// A cache that a run used.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheStatus {
    /// Name of the cache.
    pub name: String,
    /// What was found: Exact, Prefix (of one of the restoreKeys) or Miss; unset if the cache was not to be restored.
    pub hit: Option<CacheHit>,
    /// Bytes that were restored.
    pub bytes: Option<i64>,
    /// Time that restoring took, in seconds.
    pub seconds: Option<i64>,
    /// The cache was saved after the run.
    pub saved: Option<bool>,
}

/// What was found in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CacheHit {
    /// An entry of this key.
    Exact,
    /// The newest entry of one of the restore keys.
    Prefix,
    /// Nothing.
    Miss,
}

/// Where the changes of a run were published.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedStatus {
    /// The branch.
    pub branch: Option<String>,
    /// The newest commit of the branch.
    pub commit: Option<String>,
    /// Address of the pull request.
    pub url: Option<String>,
}

/// The log of a run.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogStatus {
    /// Where it is kept.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Lines kept.
    pub lines: Option<i64>,
    /// Bytes kept.
    pub bytes: Option<i64>,
    /// Whether the end of the log was seen.
    pub complete: Option<bool>,
    /// How often lines are missing in between.
    pub gaps: Option<i32>,
    /// When the log was removed from the archive, because of its age or for space.
    pub expired_at: Option<Time>,
}

/// The settings that a run used.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedStatus {
    /// Hash of the settings.
    pub hash: Option<String>,
    /// Where the settings and the origin of each are kept.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The run terms. Runs that an older version claimed have none.
    pub terms: Option<Box<RunTermsStatus>>,
}

/// The settings that hold for a run from its claim to its end. Editing or deleting the Agent, the template or the
/// configuration changes them for later runs only. A run whose Pod could not be created yet is claimed anew.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunTermsStatus {
    /// The run that has these terms.
    pub epoch: Option<i64>,
    /// The run is stopped after this time, counted from the start of the task container; never when unset.
    pub timeout: Option<Duration>,
    /// From admission to the start of the task container.
    pub startup_timeout: Option<Duration>,
    /// Whether the run is tried again when it fails; never when unset.
    pub retry: Option<Retry>,
    /// The run's own PersistentVolumeClaim is kept if the run fails.
    pub retain_workspace: Option<bool>,
    /// The agent may ask a person for approval.
    pub asks_approval: Option<bool>,
    /// Exit code 0 is a success even without a report, because the attach image is not the platform's.
    pub report_optional: Option<bool>,
    /// From the end of the agent until everything that the run keeps is stored; unset if the run keeps nothing.
    pub collect_timeout: Option<Duration>,
}
