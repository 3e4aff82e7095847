//! Every environment variable of the platform: what the controller writes into Pods, what the helpers in them read, and
//! what sets the controller up.
//!
//! Names and meanings follow upstream KubeOpenCode v0.1.7 where it has one. `docs/reference/environment.md` is
//! generated from [`GROUPS`]. Variables that users choose (credentials, `extraEnv`) are not listed.

/// Variables with one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Heading of the reference.
    pub title: &'static str,
    /// Who reads them, and who sets them.
    pub about: &'static str,
    /// The variables, in the order of the reference.
    pub variables: &'static [Variable],
}

/// One variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name. A name that ends with `_` is a prefix: a name from the spec follows.
    pub name: &'static str,
    /// Meaning, unit and default.
    pub description: &'static str,
}

/// The variable with this name. Proxies are also set in lower case, because programs disagree.
pub fn find(name: &str) -> Option<&'static Variable> {
    GROUPS.iter().flat_map(|group| group.variables).find(|variable| variable.describes(name))
}

impl Variable {
    /// Whether only the beginning of the name is fixed.
    pub fn is_prefix(&self) -> bool {
        self.name.ends_with('_')
    }

    fn describes(&self, name: &str) -> bool {
        if self.is_prefix() {
            return name.len() > self.name.len() && name.starts_with(self.name);
        }
        self.name == name || (self.name.ends_with("_PROXY") && self.name.eq_ignore_ascii_case(name))
    }
}

/// The variables with a credential for git, and the key of each in its Secret.
pub const GIT_CREDENTIALS: [(&str, &str); 4] = [
    (GIT_USERNAME, "username"),
    (GIT_PASSWORD, "password"),
    (GIT_SSH_KEY, "ssh-privatekey"),
    (GIT_SSH_KNOWN_HOSTS, "ssh-known-hosts"),
];

/// Defines each constant once, together with its row of [`GROUPS`].
macro_rules! groups {
    ($($title:literal, $about:literal { $($(#[doc = $line:literal])+ $constant:ident = $name:literal;)+ })+) => {
        $($($(#[doc = $line])+ pub const $constant: &str = $name;)+)+

        /// Every variable, grouped by reader.
        pub const GROUPS: &[Group] = &[$(Group {
            title: $title,
            about: $about,
            variables: &[$(Variable { name: $constant, description: concat!($($line),+) }),+],
        }),+];
    };
}

groups! {
    "Every container", "Set by the controller in every container of a Pod, as far as they apply." {
        /// Home directory: `/tmp`, a volume, because the user of the container may have none.
        HOME = "HOME";
        /// Shell of interactive sessions.
        SHELL = "SHELL";
        /// Directory of temporary files.
        TMPDIR = "TMPDIR";
        /// Directory that the agent works in. Default `/workspace`.
        WORKSPACE_DIR = "WORKSPACE_DIR";
        /// Proxy for http, from `proxy.httpProxy`; also set in lower case.
        HTTP_PROXY = "HTTP_PROXY";
        /// Proxy for https, from `proxy.httpsProxy`; also set in lower case.
        HTTPS_PROXY = "HTTPS_PROXY";
        /// Hosts that are reached without a proxy, such as `.svc,.cluster.local`; also set in lower case.
        NO_PROXY = "NO_PROXY";
        /// PEM file with the certificates of `caBundle`, trusted in addition to the system's.
        CUSTOM_CA_CERT_PATH = "CUSTOM_CA_CERT_PATH";
    }
    "Certificates of the agent", "Set in the agent's container if there is a `caBundle`, for the programs that agents use." {
        /// Node.js and OpenCode: PEM file, trusted in addition to the built-in certificates.
        NODE_EXTRA_CA_CERTS = "NODE_EXTRA_CA_CERTS";
        /// OpenSSL and the helpers: PEM file that replaces the system's certificates.
        SSL_CERT_FILE = "SSL_CERT_FILE";
        /// git: PEM file that replaces the system's certificates.
        GIT_SSL_CAINFO = "GIT_SSL_CAINFO";
        /// npm: PEM file that replaces the system's certificates.
        NPM_CONFIG_CAFILE = "npm_config_cafile";
        /// Python: PEM file that replaces the system's certificates.
        REQUESTS_CA_BUNDLE = "REQUESTS_CA_BUNDLE";
        /// curl: PEM file that replaces the system's certificates.
        CURL_CA_BUNDLE = "CURL_CA_BUNDLE";
    }
    "Run", "Read by `attach` and `shim`, which run beside the agent, and by init containers for `OUTCOME_FILE`." {
        /// Namespace of the Task.
        TASK_NAMESPACE = "TASK_NAMESPACE";
        /// Name of the Task.
        TASK_NAME = "TASK_NAME";
        /// UID of the Task.
        TASK_UID = "TASK_UID";
        /// Number of the run, from 1.
        TASK_EPOCH = "TASK_EPOCH";
        /// File that receives the report as JSON; in init containers, the reason of a failure. Default
        /// `/dev/termination-log`.
        OUTCOME_FILE = "OUTCOME_FILE";
        /// Bytes of the report: nodes cut longer termination messages off, depending on the number of containers.
        /// Default 4096.
        OUTCOME_BYTES = "KUBEOPENCODE_OUTCOME_BYTES";
        /// Socket on which the container `session` receives the records of the conversation. Default: none, and nothing is
        /// recorded.
        RECORDS_SOCKET = "KUBEOPENCODE_RECORDS_SOCKET";
        /// Seconds without progress after which the run ends. Default 900.
        STALL_TIMEOUT_SECONDS = "STALL_TIMEOUT_SECONDS";
        /// Maximum number of tokens of the run. Default: no limit.
        BUDGET_MAX_TOKENS = "BUDGET_MAX_TOKENS";
        /// Maximum cost of the run, such as `2.50`. Default: no limit.
        BUDGET_MAX_COST = "BUDGET_MAX_COST";
    }
    "attach", "Read by the client of a Task that runs on an Agent's server." {
        /// File that contains the prompt, if no message is given.
        PROMPT_FILE = "PROMPT_FILE";
        /// File whose text becomes the `system` field of the request.
        KUBEOPENCODE_SYSTEM_FILE = "KUBEOPENCODE_SYSTEM_FILE";
        /// Answer to permission requests: `Reject` (default), `Approve`, `Wait` for a person, or `Always`, which waits
        /// for a person at every tool call.
        APPROVAL_MODE = "APPROVAL_MODE";
        /// Seconds that `Wait` waits for a person before it rejects. Default 3600.
        APPROVAL_TIMEOUT_SECONDS = "APPROVAL_TIMEOUT_SECONDS";
        /// Seconds that the server may take to become ready; for prep, the companion. Default 120.
        START_TIMEOUT_SECONDS = "START_TIMEOUT_SECONDS";
        /// Seconds that the server may be unreachable during a run. Default 60.
        SERVER_LOST_SECONDS = "SERVER_LOST_SECONDS";
        /// File that receives the paths of the files that the session edited, as a JSON list. Default: none.
        EDITS_FILE = "KUBEOPENCODE_EDITS_FILE";
    }
    "shim", "Read by the parent process of the agent's command." {
        /// Output of the command: `opencode-json` for the events of `opencode run --format json`; `client` keeps a
        /// report that the command wrote itself; default `plain`.
        SHIM_FORMAT = "SHIM_FORMAT";
        /// Seconds between SIGTERM and SIGKILL. Default 25.
        SHIM_GRACE_SECONDS = "SHIM_GRACE_SECONDS";
        /// Directories, separated by colons, that are prepended to the command's `PATH`.
        SHIM_PATH_PREPEND = "SHIM_PATH_PREPEND";
        /// File that becomes the command's standard input.
        SHIM_STDIN_FILE = "SHIM_STDIN_FILE";
        /// File that the shim, or `attach`, creates and holds locked until it ends. Default: none.
        SHIM_LOCK_FILE = "SHIM_LOCK_FILE";
        /// File that receives a copy of the report; also from `attach`. Default: none.
        SHIM_REPORT_FILE = "SHIM_REPORT_FILE";
        /// File that receives the patch of the whole change, binary files included. Default: none.
        SHIM_PATCH_FILE = "SHIM_PATCH_FILE";
        /// File to which the command writes outputs: lines `KEY=value`, or one JSON object of strings.
        OUTPUTS_FILE = "KUBEOPENCODE_OUTPUTS";
    }
    "Agent's server", "Set in the container of an Agent's OpenCode server; the password also in the Pods of its Tasks." {
        /// `probe`: URL that must answer 200 with JSON.
        PROBE_URL = "PROBE_URL";
        /// Password of the OpenCode server, from the Agent's Secret.
        OPENCODE_SERVER_PASSWORD = "OPENCODE_SERVER_PASSWORD";
        /// User of the OpenCode server. Default `opencode`.
        OPENCODE_SERVER_USERNAME = "OPENCODE_SERVER_USERNAME";
        /// IP address of the Pod. Set on one machine, where each server listens on its own loopback address.
        POD_IP = "POD_IP";
    }
    "OpenCode", "Set in the agent's container and read by OpenCode, bash, git and npm." {
        /// File with OpenCode's configuration.
        OPENCODE_CONFIG = "OPENCODE_CONFIG";
        /// Configuration that a repository cannot override, as JSON.
        OPENCODE_CONFIG_CONTENT = "OPENCODE_CONFIG_CONTENT";
        /// Permissions as JSON, if neither the Agent nor its configuration sets any.
        OPENCODE_PERMISSION = "OPENCODE_PERMISSION";
        /// File with the configuration of OpenCode's terminal.
        OPENCODE_TUI_CONFIG = "OPENCODE_TUI_CONFIG";
        /// Database of sessions, if `persistence.sessions` is set.
        OPENCODE_DB = "OPENCODE_DB";
        /// `1`: no self-update.
        OPENCODE_DISABLE_AUTOUPDATE = "OPENCODE_DISABLE_AUTOUPDATE";
        /// `1`: no download of the model catalogue.
        OPENCODE_DISABLE_MODELS_FETCH = "OPENCODE_DISABLE_MODELS_FETCH";
        /// `1`: no download of language servers.
        OPENCODE_DISABLE_LSP_DOWNLOAD = "OPENCODE_DISABLE_LSP_DOWNLOAD";
        /// `1`: no default plugins, which are downloaded.
        OPENCODE_DISABLE_DEFAULT_PLUGINS = "OPENCODE_DISABLE_DEFAULT_PLUGINS";
        /// `1`: no native file search, which is downloaded.
        OPENCODE_DISABLE_FFF = "OPENCODE_DISABLE_FFF";
        /// API key or header of a model provider, from its Secret; the name of the provider follows.
        PROVIDER_SECRET = "KOC_PROVIDER_";
        /// Header of an MCP server, from its Secret; the names of server and header follow.
        MCP_SECRET = "KOC_MCP_";
        /// `true`: npm inside OpenCode downloads nothing. Unset in the agent's shell.
        NPM_CONFIG_OFFLINE = "npm_config_offline";
        /// File that bash reads before each command of the agent.
        BASH_ENV = "BASH_ENV";
        /// git's configuration, shared with the containers that check repositories out.
        GIT_CONFIG_GLOBAL = "GIT_CONFIG_GLOBAL";
    }
    "Traces", "Set in every container if `observability.openTelemetry` is enabled." {
        /// URL of the OTLP collector.
        OTEL_EXPORTER_OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
        /// Headers of requests to the collector.
        OTEL_EXPORTER_OTLP_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS";
        /// Value of a header, from its Secret; the name of the header follows.
        OTEL_HEADER = "OTEL_HEADER_";
        /// Attributes of every span: Task, Agent, namespace, Pod.
        OTEL_RESOURCE_ATTRIBUTES = "OTEL_RESOURCE_ATTRIBUTES";
        /// Name of the Pod, for the attributes.
        OTEL_POD_NAME = "OTEL_POD_NAME";
        /// `true`: spans contain prompts and answers.
        OTEL_CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
    }
    "opencode-init", "Read by the agent image, which copies OpenCode into the Pod." {
        /// Directory that receives OpenCode: `/tools`.
        TOOLS_DIR = "TOOLS_DIR";
    }
    "context-init", "Read by the init container that writes context files." {
        /// Mount of the ConfigMap with context files. Default `/configmap-files`.
        CONFIGMAP_PATH = "CONFIGMAP_PATH";
        /// Files to copy from the ConfigMap, as JSON: `[{"key"|"keys", "targetPath", "fileMode"}]`.
        FILE_MAPPINGS = "FILE_MAPPINGS";
        /// Directories to copy, as JSON: `[{"sourcePath", "targetPath", "fileMode"}]`.
        DIR_MAPPINGS = "DIR_MAPPINGS";
        /// Directories, separated by colons, that may be written in addition to the workspace. Default: the parent
        /// directories of the targets outside of the workspace.
        CONTEXT_ROOTS = "CONTEXT_ROOTS";
        /// Path that the helper copies itself to, for the agent's container.
        COPY_SELF_TO = "COPY_SELF_TO";
        /// Path at which every container already sees the helper; a link replaces the copy. Set by the embedded node.
        SHARED_PROGRAM = "KUBEOPENCODE_SHARED_PROGRAM";
        /// File that receives the system's certificates and `CUSTOM_CA_CERT_PATH` as one bundle.
        COMBINED_CA_BUNDLE = "COMBINED_CA_BUNDLE";
    }
    "git-init, git-sync", "Read by the containers that check repositories out." {
        /// URL of the repository: https, http, ssh or `git@host:path`.
        GIT_REPO = "GIT_REPO";
        /// Branch, tag, full or abbreviated commit, or `HEAD` (default).
        GIT_REF = "GIT_REF";
        /// Number of commits of history; 0 = all. Default 1.
        GIT_DEPTH = "GIT_DEPTH";
        /// Directory that contains the checkout. Default `/git`.
        GIT_ROOT = "GIT_ROOT";
        /// Name of the checkout inside `GIT_ROOT`. Default `repo`.
        GIT_LINK = "GIT_LINK";
        /// User for https, from Secret key `username`.
        GIT_USERNAME = "GIT_USERNAME";
        /// Password or token for https, from Secret key `password`.
        GIT_PASSWORD = "GIT_PASSWORD";
        /// Private key, or the path of a file that contains it, from Secret key `ssh-privatekey`.
        GIT_SSH_KEY = "GIT_SSH_KEY";
        /// known_hosts lines, or the path of a file that contains them, from Secret key `ssh-known-hosts`.
        GIT_SSH_KNOWN_HOSTS = "GIT_SSH_KNOWN_HOSTS";
        /// Directory that the checkout is merged into, once.
        GIT_WORKSPACE_DIR = "GIT_WORKSPACE_DIR";
        /// Directory of the repository that is merged; unset = all of it.
        GIT_REPO_SUBPATH = "GIT_REPO_SUBPATH";
        /// Files and directories that the repository must contain, as a JSON list.
        GIT_REPO_PARTS = "GIT_REPO_PARTS";
        /// `true`: update a persistent workspace to the newest commit, as git-sync does.
        GIT_FOLLOW = "GIT_FOLLOW";
        /// `true`: also check out submodules.
        GIT_RECURSE_SUBMODULES = "GIT_RECURSE_SUBMODULES";
        /// Number of attempts. Default 3.
        GIT_CLONE_RETRIES = "GIT_CLONE_RETRIES";
        /// Time between attempts: `5`, `5s` or `500ms`. Default 5s.
        GIT_CLONE_RETRY_DELAY = "GIT_CLONE_RETRY_DELAY";
        /// Time limit of one git command. Default 1800s.
        GIT_TIMEOUT = "GIT_TIMEOUT";
        /// `true`: allow `file://` URLs, for tests.
        GIT_ALLOW_FILE = "GIT_ALLOW_FILE";
        /// `true`: continue if the repository is unavailable.
        GIT_OPTIONAL = "GIT_OPTIONAL";
        /// git-sync: time between two fetches: `300`, `300s` or `5m`. Default 300s.
        GIT_SYNC_INTERVAL = "GIT_SYNC_INTERVAL";
    }
    "url-fetch", "Read by the init containers that download documents." {
        /// URL to fetch, http or https.
        URL_SOURCE = "URL_SOURCE";
        /// File to write.
        URL_TARGET = "URL_TARGET";
        /// Request headers, as a JSON object.
        URL_HEADERS = "URL_HEADERS";
        /// Time limit of the whole transfer. Default 30s.
        URL_TIMEOUT = "URL_TIMEOUT";
        /// Maximum size in bytes. Default 10485760.
        URL_MAX_BYTES = "URL_MAX_BYTES";
        /// `true`: skip certificate checks.
        URL_INSECURE = "URL_INSECURE";
        /// Bearer token, from Secret key `token`; takes precedence over user and password.
        URL_AUTH_TOKEN = "URL_AUTH_TOKEN";
        /// User for basic authentication, from Secret key `username`.
        URL_AUTH_USERNAME = "URL_AUTH_USERNAME";
        /// Password for basic authentication, from Secret key `password`.
        URL_AUTH_PASSWORD = "URL_AUTH_PASSWORD";
        /// Octal mode of the file. Default 0644.
        URL_FILE_MODE = "URL_FILE_MODE";
        /// `true`: continue if the document is unavailable.
        URL_OPTIONAL = "URL_OPTIONAL";
        /// `true`: allow loopback addresses, for tests and on one machine.
        URL_ALLOW_LOOPBACK = "URL_ALLOW_LOOPBACK";
    }
    "plugin-init", "Read by the init container that installs OpenCode plugins." {
        /// npm packages, as a JSON list.
        PLUGIN_PACKAGES = "PLUGIN_PACKAGES";
        /// Directory that they are installed in. Default `/plugins`.
        PLUGIN_DIR = "PLUGIN_DIR";
        /// Time limit of the installation. Default 600s.
        PLUGIN_TIMEOUT = "PLUGIN_TIMEOUT";
        /// Path of npm. Default `npm`.
        PLUGIN_NPM = "PLUGIN_NPM";
    }
    "prep, housekeeper", "Read by the containers that fetch the inputs of a run and keep its results." {
        /// URL of the depot. For the controller: URL at which Pods reach the depot; without it nothing is kept. Set by
        /// `up`.
        DEPOT_URL = "KUBEOPENCODE_DEPOT_URL";
        /// File with the token for the depot. Default `/var/run/secrets/kubeopencode.io/depot/token`.
        DEPOT_TOKEN_FILE = "KUBEOPENCODE_DEPOT_TOKEN_FILE";
        /// prep: what to fetch, as JSON: `{"inputs", "caches"}` as in the Task.
        FETCH = "KUBEOPENCODE_FETCH";
        /// prep: `startupTimeout` of the run, which includes prep. Default 300s.
        STARTUP_TIMEOUT = "KUBEOPENCODE_STARTUP_TIMEOUT";
        /// housekeeper: what to keep, as JSON: `{"artifacts", "outputs", "caches"}` as in the Task, `changes` and
        /// `publish`.
        KEEP = "KUBEOPENCODE_KEEP";
        /// housekeeper: time from the end of the agent's container within which everything must be stored. Default 600s.
        COLLECT_TIMEOUT = "KUBEOPENCODE_COLLECT_TIMEOUT";
        /// Directory that the housekeeper shares with the agent's container. Default `/results`.
        RESULTS_DIR = "KUBEOPENCODE_RESULTS_DIR";
        /// Directory that prep and the housekeeper share, out of reach of the agent. Default `/collect`.
        COLLECT_DIR = "KUBEOPENCODE_COLLECT_DIR";
    }
    "companion", "Read by the container beside an Agent's server, and by prep and the housekeeper of a Task on it." {
        /// companion: address and port to listen on.
        COMPANION_LISTEN = "KUBEOPENCODE_COMPANION_LISTEN";
        /// Token of the Agent's companion, from its Secret.
        COMPANION_TOKEN = "KUBEOPENCODE_COMPANION_TOKEN";
        /// companion: directory of its own, out of reach of the agent. Default `/companion`.
        COMPANION_DIR = "KUBEOPENCODE_COMPANION_DIR";
        /// prep, housekeeper: URL of the companion.
        COMPANION_URL = "KUBEOPENCODE_COMPANION_URL";
        /// prep: what the run will ask for at its end, as JSON: `{"outputs", "changes"}`. Default: nothing.
        COMPANION_BEGIN = "KUBEOPENCODE_COMPANION_BEGIN";
        /// prep: directory below the workspace that is delivered to the Agent's workspace, at the same path. Default: none.
        DELIVERY_DIR = "DELIVERY_DIR";
    }
    "image-build, image-push", "Read by the containers that build and push the image of `executorImageBuild`." {
        /// What to build, as JSON: `{"image", "dockerfile", "context", "args", "insecure"}`.
        IMAGE_BUILD = "KUBEOPENCODE_IMAGE_BUILD";
        /// image-build: the checkout of the repository. Default `/git/repo`.
        IMAGE_SOURCE_DIR = "KUBEOPENCODE_IMAGE_SOURCE_DIR";
        /// Directory through which the image is handed over. Default `/image`.
        IMAGE_DIR = "KUBEOPENCODE_IMAGE_DIR";
        /// Directory for images and layers of buildah. Default `/builds`.
        BUILD_STORAGE_DIR = "KUBEOPENCODE_BUILD_STORAGE_DIR";
        /// image-push: the login of the registry, a Docker configuration. Default
        /// `/var/run/secrets/kubeopencode.io/registry/config.json`; if it does not exist, no login is used.
        REGISTRY_LOGIN_FILE = "KUBEOPENCODE_REGISTRY_LOGIN_FILE";
        /// Path of buildah. Default `buildah`.
        BUILDAH = "KUBEOPENCODE_BUILDAH";
    }
    "workspace-clean", "Read by the helper that removes the directories of deleted Tasks from a shared workspace." {
        /// Mount of the whole volume. Default `/workspaces`.
        WORKSPACES_DIR = "KUBEOPENCODE_WORKSPACES_DIR";
        /// UIDs of the Tasks whose directories are removed, separated by commas.
        REMOVED_TASKS = "KUBEOPENCODE_REMOVED_TASKS";
        /// UIDs of Tasks that exist, separated by commas. The report does not list them.
        KNOWN_TASKS = "KUBEOPENCODE_KNOWN_TASKS";
        /// The report lists Tasks whose UIDs come after this one, in the order of UIDs. Default all.
        LIST_AFTER = "KUBEOPENCODE_LIST_AFTER";
    }
    "Platform", "Read by the controller and the server. KubeOpenCodeConfig takes precedence; an empty value is ignored." {
        /// Image of the helpers.
        SYSTEM_IMAGE = "KUBEOPENCODE_SYSTEM_IMAGE";
        /// When nodes pull it: `Always`, `Never` or `IfNotPresent` (default).
        SYSTEM_IMAGE_PULL_POLICY = "KUBEOPENCODE_SYSTEM_IMAGE_PULL_POLICY";
        /// Image that provides the OpenCode binary.
        AGENT_IMAGE = "KUBEOPENCODE_AGENT_IMAGE";
        /// Image that agents work in.
        EXECUTOR_IMAGE = "KUBEOPENCODE_EXECUTOR_IMAGE";
        /// Image of the client of Tasks on an Agent.
        ATTACH_IMAGE = "KUBEOPENCODE_ATTACH_IMAGE";
        /// ServiceAccount of Pods. Default `default`.
        SERVICE_ACCOUNT = "KUBEOPENCODE_SERVICE_ACCOUNT";
        /// Secrets for pulling images, in the namespace of each Pod, separated by commas. Default: none.
        IMAGE_PULL_SECRETS = "KUBEOPENCODE_IMAGE_PULL_SECRETS";
        /// Directory of the embedded node, for messages that say where files are. Set by `up`.
        NODE_DIRECTORY = "KUBEOPENCODE_NODE_DIRECTORY";
        /// `false`: containers run the programs of this machine, so a built image cannot run. Set by `up` without a
        /// container engine. Default `true`.
        RUNS_IMAGES = "KUBEOPENCODE_RUNS_IMAGES";
        /// DNS domain of the cluster. Default `cluster.local`.
        CLUSTER_DOMAIN = "KUBEOPENCODE_CLUSTER_DOMAIN";
        /// `Local` on one machine, where servers listen on loopback addresses; anything else is a cluster.
        ADDRESSING = "KUBEOPENCODE_ADDRESSING";
        /// `true`: look-ups of the controller (registries, followed repositories) may reach loopback addresses. Default
        /// `false`; `true` on one machine.
        ALLOW_LOOPBACK = "KUBEOPENCODE_ALLOW_LOOPBACK";
        /// Addresses that look-ups of the controller may not reach, besides loopback and link-local ones, separated by
        /// commas: `private`, ranges such as `10.0.0.0/8`, addresses.
        REFUSED_ADDRESSES = "KUBEOPENCODE_REFUSED_ADDRESSES";
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_variable_is_listed_once_with_a_description() {
        let all: Vec<&Variable> = GROUPS.iter().flat_map(|group| group.variables).collect();
        let names: BTreeSet<&str> = all.iter().map(|variable| variable.name).collect();
        assert_eq!(names.len(), all.len());
        for variable in all {
            assert!(variable.description.ends_with('.'), "{variable:?}");
        }
    }

    #[test]
    fn prefixes_and_lower_case_proxies_are_found() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(find(name).map(|variable| variable.name), expected, "{name}");
        };
        check("TASK_NAME", Some(TASK_NAME));
        check("task_name", None);
        check("no_proxy", Some(NO_PROXY));
        check("KOC_MCP_GITHUB_TOKEN", Some(MCP_SECRET));
        check("KOC_MCP_", None);
        check("ANTHROPIC_API_KEY", None);
    }
}
