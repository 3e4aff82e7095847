//! Types of conditions, and the reasons that they, events and metrics carry.
//!
//! A condition's message is a sentence for a person; its reason is a stable identifier for a program.

/// Condition types, by the kinds that carry them.
pub mod types {
    /// Task, CronTask, AgentTemplate, Registry, MCPServer: it works.
    pub const READY: &str = "Ready";
    /// Task: it waits, and the reason says what for.
    pub const QUEUED: &str = "Queued";
    /// CronTask: no run starts until its user acts; only there while that is so.
    pub const BLOCKED: &str = "Blocked";
    /// Task: it was ended before its own end.
    pub const STOPPED: &str = "Stopped";
    /// Task: its workspace volume exists.
    pub const WORKSPACE_READY: &str = "WorkspaceReady";
    /// Task: contexts, inputs and caches are in place.
    pub const PREPARED: &str = "Prepared";
    /// Task: the whole log is in the archive.
    pub const LOGS_CAPTURED: &str = "LogsCaptured";
    /// Task: the result of this run is durable.
    pub const RESULT_RECORDED: &str = "ResultRecorded";
    /// Agent: a changed server takes over; Tasks wait for it.
    pub const PROGRESSING: &str = "Progressing";
    /// Task: the agent asks a person for permission.
    pub const AWAITING_APPROVAL: &str = "AwaitingApproval";
    /// Task: the cluster, not the Task, ended a run.
    pub const DISRUPTED: &str = "Disrupted";
    /// Agent: the image of `executorImageBuild` exists.
    pub const IMAGE_READY: &str = "ImageReady";
    /// Agent: the Deployment has a ready Pod.
    pub const SERVER_READY: &str = "ServerReady";
    /// Agent: the OpenCode server answers.
    pub const SERVER_HEALTHY: &str = "ServerHealthy";
    /// Agent: scaled to zero.
    pub const SUSPENDED: &str = "Suspended";
    /// Agent: a new commit waits for running Tasks to end.
    pub const GIT_SYNC_PENDING: &str = "GitSyncPending";
    /// Agent: the standby settings work, but not as written.
    pub const STANDBY_CONFIG_WARNING: &str = "StandbyConfigWarning";
    /// Agent: its claims are as `persistence` says; only there while they are not.
    pub const PERSISTENCE_APPLIED: &str = "PersistenceApplied";
    /// Agent: the share link opens.
    pub const SHARE_READY: &str = "ShareReady";
    /// Every kind with references: the spec is valid.
    pub const ACCEPTED: &str = "Accepted";
    /// Every kind with references: everything it refers to exists and may be used from here.
    pub const REFERENCES_RESOLVED: &str = "ReferencesResolved";
    /// Agent: the compiled OpenCode configuration is valid.
    pub const CONFIG_VALID: &str = "ConfigValid";
    /// Agent, ModelProvider: every Secret key that it needs exists.
    pub const SECRETS_READY: &str = "SecretsReady";
    /// ModelProvider, RemoteMCPServer: the endpoint answered last time.
    pub const REACHABLE: &str = "Reachable";
    /// RemoteMCPServer: its tools are in the catalogue.
    pub const TOOLS_DISCOVERED: &str = "ToolsDiscovered";
    /// AgentTool: the OpenAPI document was read.
    pub const SCHEMA_RESOLVED: &str = "SchemaResolved";
    /// AgentWorkflow: it compiles to an executable graph.
    pub const COMPILED: &str = "Compiled";
    /// KubeOpenCodeConfig: the controller uses it.
    pub const APPLIED: &str = "Applied";
}

/// Reasons, by condition.
pub mod reasons {
    // Why a Task waits.
    /// The Agent runs as many Tasks as it may.
    pub const AGENT_AT_CAPACITY: &str = "AgentAtCapacity";
    /// The Agent or template started as many Tasks as it may in the window.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// The Agent is suspended.
    pub const AGENT_SUSPENDED: &str = "AgentSuspended";
    /// The Agent's server is not ready.
    pub const AGENT_SERVER_NOT_READY: &str = "AgentServerNotReady";
    /// The Agent does not exist (yet).
    pub const AGENT_NOT_FOUND: &str = "AgentNotFound";
    /// The AgentTemplate does not exist (yet).
    pub const TEMPLATE_NOT_FOUND: &str = "TemplateNotFound";
    /// Another Task must end first.
    pub const WAITING_FOR_DEPENDENCY: &str = "WaitingForDependency";
    /// The template runs as many Tasks as it may.
    pub const TEMPLATE_AT_CAPACITY: &str = "TemplateAtCapacity";
    /// Running Tasks may use all that is left of the budget.
    pub const BUDGET_RESERVED: &str = "BudgetReserved";
    /// It no longer waits: nothing limits it.
    pub const NO_LIMITS: &str = "NoLimits";
    /// It no longer waits: a slot became free.
    pub const CAPACITY_AVAILABLE: &str = "CapacityAvailable";

    // While a Task runs.
    /// The agent waits for a person's answer.
    pub const ASKED: &str = "Asked";
    /// It does not wait any more.
    pub const ANSWERED: &str = "Answered";

    // What a run has reached.
    /// The inputs of the run are in place.
    pub const IN_PLACE: &str = "InPlace";
    /// The log was read to its end and is kept.
    pub const CAPTURED: &str = "Captured";
    /// Lines of the log, or its end, could not be read.
    pub const LOG_INCOMPLETE: &str = "LogIncomplete";
    /// A changed server takes over from the one before.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// A changed server waits until no Task runs.
    pub const ROLLOUT_HELD: &str = "RolloutHeld";
    /// A changed server has waited long: no further Task starts before it.
    pub const DRAINING: &str = "Draining";
    /// How the run ended is kept.
    pub const RECORDED: &str = "Recorded";
    /// The run record could not be archived.
    pub const NOT_RECORDED: &str = "NotRecorded";

    // How a Task ended.
    /// The agent finished its work.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Its user stopped it.
    pub const USER_STOPPED: &str = "UserStopped";
    /// `spec.timeout` passed.
    pub const TIMEOUT: &str = "Timeout";
    /// The container was killed for using too much memory.
    pub const OOM_KILLED: &str = "OOMKilled";
    /// The node evicted the Pod.
    pub const EVICTED: &str = "Evicted";
    /// The node went away.
    pub const NODE_LOST: &str = "NodeLost";
    /// A Pod of higher priority took the place.
    pub const PREEMPTED: &str = "Preempted";
    /// An image could not be pulled.
    pub const IMAGE_PULL_FAILED: &str = "ImagePullFailed";
    /// The image of `executorImageBuild` is being built.
    pub const BUILDING_IMAGE: &str = "BuildingImage";
    /// The image of `executorImageBuild` exists.
    pub const IMAGE_BUILT: &str = "ImageBuilt";
    /// The image of `executorImageBuild` could not be built or pushed.
    pub const IMAGE_BUILD_FAILED: &str = "ImageBuildFailed";
    /// No registry is configured for built images, or they cannot run here.
    pub const IMAGE_BUILD_UNAVAILABLE: &str = "ImageBuildUnavailable";
    /// The commit of `executorImageBuild` cannot be looked up.
    pub const IMAGE_SOURCE_UNAVAILABLE: &str = "ImageSourceUnavailable";
    /// No node takes the Pod.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Contexts, repositories or inputs could not be put in place.
    pub const PREPARATION_FAILED: &str = "PreparationFailed";
    /// Nothing matches a required artefact.
    pub const ARTIFACT_MISSING: &str = "ArtifactMissing";
    /// The run did not leave a declared output.
    pub const OUTPUT_MISSING: &str = "OutputMissing";
    /// The results of the run could not be stored.
    pub const COLLECT_FAILED: &str = "CollectFailed";
    /// The changes could not be pushed, or the pull request could not be opened.
    pub const PUBLISH_FAILED: &str = "PublishFailed";
    /// The agent has finished; its results are being stored.
    pub const COLLECTING: &str = "Collecting";
    /// The Pod vanished.
    pub const POD_LOST: &str = "PodLost";
    /// The task did not start in `startupTimeout`.
    pub const STARTUP_TIMEOUT: &str = "StartupTimeout";
    /// The budget is used up.
    pub const BUDGET_EXCEEDED: &str = "BudgetExceeded";
    /// The model answered with an error.
    pub const MODEL_ERROR: &str = "ModelError";
    /// The agent asked for a permission that it did not get.
    pub const PERMISSION_REJECTED: &str = "PermissionRejected";
    /// No event for `stallTimeout`.
    pub const NO_PROGRESS: &str = "NoProgress";
    /// The Agent's server went away during the run.
    pub const SERVER_LOST: &str = "ServerLost";
    /// The Agent was deleted during the run.
    pub const AGENT_GONE: &str = "AgentGone";
    /// The answer was cut at the model's output limit.
    pub const LENGTH_LIMIT: &str = "LengthLimit";
    /// The provider refused the content.
    pub const CONTENT_FILTERED: &str = "ContentFiltered";
    /// The session was aborted on the server.
    pub const SESSION_ABORTED: &str = "SessionAborted";
    /// The task command exited with a code that is not 0.
    pub const NON_ZERO_EXIT: &str = "NonZeroExit";
    /// The run ended without leaving a result.
    pub const RESULT_MISSING: &str = "ResultMissing";
    /// What must be handed to the Pod does not fit into a Secret.
    pub const ASSIGNMENT_TOO_LARGE: &str = "AssignmentTooLarge";
    /// A Task that this one depends on failed.
    pub const DEPENDENCY_FAILED: &str = "DependencyFailed";

    // What is wrong with an object.
    /// The Agent or template cannot be used; the message says why.
    pub const AGENT_ERROR: &str = "AgentError";
    /// A context cannot be delivered.
    pub const CONTEXT_ERROR: &str = "ContextError";
    /// The ConfigMap with the contexts was refused.
    pub const CONFIG_MAP_CREATION_ERROR: &str = "ConfigMapCreationError";
    /// The Pod was refused.
    pub const POD_CREATION_ERROR: &str = "PodCreationError";
    /// The spec breaks a rule that spans more than one field or object.
    pub const INVALID: &str = "Invalid";
    /// Something it refers to does not exist.
    pub const REFERENCE_NOT_FOUND: &str = "ReferenceNotFound";
    /// Its owner does not allow this namespace to refer to it.
    pub const REFERENCE_NOT_ALLOWED: &str = "ReferenceNotAllowed";
    /// It refers to an object of a kind that no controller serves yet.
    pub const NOT_SUPPORTED: &str = "NotSupported";
    /// Neither a model nor a provider or credentials for one are configured.
    pub const NO_MODEL: &str = "NoModel";
    /// A budget in money is set, and the price of the model is not known.
    pub const UNPRICED_MODEL: &str = "UnpricedModel";
    /// Everything it refers to was found.
    pub const RESOLVED: &str = "Resolved";
    /// A Secret or a key in it is missing or unreadable.
    pub const SECRET_MISSING: &str = "SecretMissing";
    /// The Task names a Secret whose owner does not let Tasks use it.
    pub const SECRET_NOT_ALLOWED: &str = "SecretNotAllowed";
    /// The compiled OpenCode configuration is not valid.
    pub const CONFIG_INVALID: &str = "ConfigInvalid";
    /// The spec is valid.
    pub const VALID: &str = "Valid";
    /// Not checked: an earlier check failed.
    pub const NOT_CHECKED: &str = "NotChecked";
    /// An object of that name belongs to another owner.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// A claim holds data and cannot change as wanted.
    pub const CLAIM_KEPT: &str = "ClaimKept";
    /// The API server refused a write; the message is its own.
    pub const APPLY_FAILED: &str = "ApplyFailed";

    // An Agent's server.
    /// The Deployment has a ready Pod.
    pub const DEPLOYMENT_READY: &str = "DeploymentReady";
    /// The Deployment has no ready Pod.
    pub const DEPLOYMENT_NOT_READY: &str = "DeploymentNotReady";
    /// The Deployment does not exist.
    pub const DEPLOYMENT_NOT_FOUND: &str = "DeploymentNotFound";
    /// The server in the Deployment answers.
    pub const DEPLOYMENT_HEALTHY: &str = "DeploymentHealthy";
    /// The Agent or CronTask is suspended.
    pub const SUSPENDED: &str = "Suspended";
    /// Its user suspended it.
    pub const USER_REQUESTED: &str = "UserRequested";
    /// It was idle for `standby.idleTimeout`.
    pub const STANDBY: &str = "Standby";
    /// It is not suspended; the share link opens.
    pub const ACTIVE: &str = "Active";
    /// The share link has expired.
    pub const EXPIRED: &str = "Expired";
    /// The share link opens when the Agent is ready.
    pub const AGENT_NOT_READY: &str = "AgentNotReady";
    /// A roll-out waits for running Tasks.
    pub const WAITING_FOR_TASKS: &str = "WaitingForTasks";
    /// The repository and the Pod agree.
    pub const SYNCED: &str = "Synced";
    /// `standby.idleTimeout` is shorter than the heartbeat.
    pub const IDLE_TIMEOUT_TOO_SHORT: &str = "IdleTimeoutTooShort";

    // A CronTask.
    /// It waits for its next time.
    pub const SCHEDULED: &str = "Scheduled";
    /// The schedule cannot be read or never comes.
    pub const INVALID_SCHEDULE: &str = "InvalidSchedule";
    /// The last time passed its deadline.
    pub const MISSED_DEADLINE: &str = "MissedDeadline";
    /// It has as many Tasks as it may; delete some, or set a clean-up policy.
    pub const MAX_RETAINED_TASKS_REACHED: &str = "MaxRetainedTasksReached";
    /// The API server refused the Task whose time had come.
    pub const TASK_NOT_CREATED: &str = "TaskNotCreated";
    /// A Task of it still runs, and the policy forbids another.
    pub const ACTIVE_TASK_EXISTS: &str = "ActiveTaskExists";

    // A Registry.
    /// Every asset is there.
    pub const ALL_ASSETS_READY: &str = "AllAssetsReady";
    /// It lists nothing.
    pub const EMPTY: &str = "Empty";
    /// Some assets are not there.
    pub const ASSETS_UNAVAILABLE: &str = "AssetsUnavailable";
}
