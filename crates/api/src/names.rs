//! Names that people, selectors and other tools rely on. They never change within v1alpha1.

/// The API group of every kind.
pub const GROUP: &str = "kubeopencode.io";
/// The only version of the group.
pub const VERSION: &str = "v1alpha1";
/// `kubectl get kubeopencode` lists every kind, because each carries this category.
pub const CATEGORY: &str = "kubeopencode";

/// Keys of labels.
pub mod labels {
    /// On every object that we create; its value is [`APP_VALUE`].
    pub const APP: &str = "app";
    /// The value of [`APP`].
    pub const APP_VALUE: &str = "kubeopencode";
    /// The Agent that a Task runs on, or that a Deployment, Service or Pod belongs to.
    pub const AGENT: &str = "kubeopencode.io/agent";
    /// The AgentTemplate that an Agent or a Task uses.
    pub const AGENT_TEMPLATE: &str = "kubeopencode.io/agent-template";
    /// The Task that a Pod or ConfigMap belongs to.
    pub const TASK: &str = "kubeopencode.io/task";
    /// The run of that Task, as a decimal number.
    pub const RUN_EPOCH: &str = "kubeopencode.io/run-epoch";
    /// The CronTask that created a Task.
    pub const CRON_TASK: &str = "kubeopencode.io/crontask";
    /// `"true"` on a Secret: its owner lets every author of Tasks in the namespace use it, also those who cannot read it.
    pub const ALLOW_TASKS: &str = "kubeopencode.io/allow-tasks";
    /// `"true"` on the Secret that holds the token of a share link.
    pub const SHARE_TOKEN: &str = "kubeopencode.io/share-token";
    /// Kubernetes' own: the name of the application.
    pub const APP_NAME: &str = "app.kubernetes.io/name";
    /// Kubernetes' own: which instance of the application.
    pub const APP_INSTANCE: &str = "app.kubernetes.io/instance";
    /// Kubernetes' own: which part of the application.
    pub const APP_COMPONENT: &str = "app.kubernetes.io/component";
    /// Kubernetes' own: who manages the object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Value of [`MANAGED_BY`].
    pub const MANAGER: &str = "kubeopencode";
    /// On a claim that we created for runs; its value is [`MANAGER`]. `kubectl get pvc -l kubeopencode.io/managed-by`
    /// lists them.
    pub const RUN_CLAIM: &str = "kubeopencode.io/managed-by";
    /// `"true"` on the claim of a failed run: its files are kept until the Task is deleted.
    pub const RETAINED: &str = "kubeopencode.io/retained";
    /// On an image: the framework inside, read for `Agent.status.detectedFramework`.
    pub const FRAMEWORK: &str = "kubeopencode.io/framework";
}

/// Keys of annotations.
pub mod annotations {
    /// On a Task: `"true"` stops it.
    pub const STOP: &str = "kubeopencode.io/stop";
    /// On a Task: a new value runs it again under the next epoch.
    pub const RERUN: &str = "kubeopencode.io/rerun";
    /// On a Pod: when its termination was requested.
    pub const ENDED_AT: &str = "kubeopencode.io/ended-at";
    /// On a Pod: reason of the requested termination.
    pub const ENDED_FOR: &str = "kubeopencode.io/ended-for";
    /// On a Task's Pod: its target, `Agent/<name>` or `AgentTemplate/<name>`. It holds a slot there even when its
    /// Task is gone.
    pub const RUNS_ON: &str = "kubeopencode.io/runs-on";
    /// On a CronTask: `"true"` creates one Task now. Until that Task exists, it then holds when it was seen.
    pub const TRIGGER: &str = "kubeopencode.io/trigger";
    /// On a Namespace: names of its Secrets with the label `kubeopencode.io/allow-tasks=true`, separated by commas. The
    /// controller keeps it up to date for the admission policy, which cannot read the labels of Secrets.
    pub const TASK_SECRETS: &str = "kubeopencode.io/task-secrets";
    /// On any object that was created through the REST API: name of the authenticated user. The server sets it and
    /// keeps it; clients of the Kubernetes API can write any value.
    pub const CREATED_BY: &str = "kubeopencode.io/created-by";
    /// On an Agent: RFC 3339 time of the last sign of life of a connected person.
    pub const LAST_CONNECTION_ACTIVE: &str = "kubeopencode.io/last-connection-active";
    /// On an Agent: `Standby` when we, not its user, set `spec.suspend`.
    pub const SUSPENDED_BY: &str = "kubeopencode.io/suspended-by";
    /// On a share Secret: the Agent it opens.
    pub const AGENT_NAME: &str = "kubeopencode.io/agent-name";
    /// On a share Secret: that Agent's namespace.
    pub const AGENT_NAMESPACE: &str = "kubeopencode.io/agent-namespace";
    /// On a Pod that builds an image: the image, its repository and its commit, as JSON.
    pub const IMAGE_BUILD: &str = "kubeopencode.io/image-build";
    /// On a Task's Pod, followed by a number: a small file that the Pod brings along.
    pub const FILE_PREFIX: &str = "files.kubeopencode.io/";
    /// On objects of an Agent: digest of the applied content, so that removed settings are noticed.
    pub const APPLIED: &str = "kubeopencode.io/applied";
    /// On a Pod template: hash of the context files, so that a change rolls out.
    pub const CONTEXT_HASH: &str = "kubeopencode.io/context-hash";
    /// On a Pod template: hash of the whole configuration, so that a change rolls out once.
    pub const CONFIG_HASH: &str = "kubeopencode.io/config-hash";
    /// On a Pod template, followed by a context's name: the commit that was rolled out.
    pub const GIT_HASH_PREFIX: &str = "kubeopencode.io/git-hash-";
}

/// Finalizers: only for what lives outside Kubernetes' own garbage collection.
pub mod finalizers {
    /// On a Task: stop it the proper way, abort its session, remove its files from the Agent's workspace.
    pub const TASK: &str = "kubeopencode.io/task-cleanup";
    /// On a tool server: remove its rows from the catalogue.
    pub const CATALOGUE: &str = "kubeopencode.io/catalogue";
}

/// The ValidatingAdmissionPolicy of `deploy/admission/task-secrets.yaml`, and its binding.
pub const TASK_SECRETS_POLICY: &str = "task-secrets.kubeopencode.io";

/// Field managers of server-side apply, one a controller.
pub mod field_managers {
    /// The Task controller.
    pub const TASK: &str = "kubeopencode-task";
    /// The Agent controller.
    pub const AGENT: &str = "kubeopencode-agent";
    /// The CronTask controller.
    pub const CRON_TASK: &str = "kubeopencode-crontask";
    /// Every other controller.
    pub const CONTROLLER: &str = "kubeopencode-controller";
}

/// Default images.
pub mod images {
    /// The image of our own helpers.
    pub const SYSTEM: &str = "quay.io/kubeopencode/kubeopencode:latest";
    /// Copies OpenCode to `/tools`.
    pub const AGENT: &str = "quay.io/kubeopencode/kubeopencode-agent-opencode:latest";
    /// Where the agent works.
    pub const EXECUTOR: &str = "quay.io/kubeopencode/kubeopencode-agent-devbox:latest";
    /// The small client of a Task on an Agent.
    pub const ATTACH: &str = "quay.io/kubeopencode/kubeopencode-agent-attach:latest";
    /// Builds images: buildah.
    pub const BUILDER: &str = "quay.io/buildah/stable:latest";
}

/// Values that hold when neither Task, Agent, template nor configuration says otherwise.
pub mod defaults {
    /// Where the agent works.
    pub const WORKSPACE_DIR: &str = "/workspace";
    /// The ServiceAccount of Pods; its token is never mounted unless asked.
    pub const SERVICE_ACCOUNT: &str = "default";
    /// Port of an Agent's OpenCode server.
    pub const PORT: i32 = 4096;
    /// Size of the claim that keeps sessions.
    pub const SESSIONS_SIZE: &str = "1Gi";
    /// Size of the claim that keeps an Agent's workspace.
    pub const WORKSPACE_SIZE: &str = "10Gi";
    /// Size of a Task's own workspace claim.
    pub const TASK_WORKSPACE_SIZE: &str = "20Gi";
    /// DNS domain of the cluster.
    pub const CLUSTER_DOMAIN: &str = "cluster.local";
    /// How long a Task waits for a missing reference.
    pub const REFERENCE_GRACE_SECONDS: u64 = 60;
    /// From admission to the start of the task container.
    pub const STARTUP_TIMEOUT_SECONDS: u64 = 300;
    /// A run without any event for this long ends.
    pub const STALL_TIMEOUT_SECONDS: u64 = 900;
    /// Default of `collectTimeout`.
    pub const COLLECT_TIMEOUT_SECONDS: u64 = 600;
}
