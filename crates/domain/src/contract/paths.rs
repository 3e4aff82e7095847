//! Every path that two containers, or the controller and a helper, must agree on.

/// Volume with the programs and files of the platform, mounted in the agent's container.
pub const TOOLS: &str = "/tools";
/// Our own program in the agent's container.
pub const OUR_BINARY: &str = "/tools/kubeopencode";
/// OpenCode in the agent's container.
pub const OPENCODE: &str = "/tools/opencode";
/// OpenCode's configuration.
pub const OPENCODE_CONFIG_FILE: &str = "/tools/opencode.json";
/// Configuration of OpenCode's terminal.
pub const TUI_CONFIG_FILE: &str = "/tools/tui.json";
/// Directory of the texts of Instructions.
pub const INSTRUCTIONS: &str = "/tools/instructions";
/// What bash reads before each command of the agent, whose own `npm install` must reach the network.
pub const SHELL_ENV_FILE: &str = "/tools/shell.env";
/// The system's certificates and those of a `caBundle` in one file: most programs take only one.
pub const COMBINED_CA_FILE: &str = "/tools/ca-bundle.crt";

/// Our own program in the system image.
pub const HELPER: &str = "/kubeopencode";
/// Home directory of every container.
pub const HOME: &str = "/tmp";
/// Shell of every container.
pub const SHELL: &str = "/bin/bash";
/// The agent's directory, unless `workspaceDir` is set.
pub const WORKSPACE: &str = api::names::defaults::WORKSPACE_DIR;
/// Directory of the platform below the workspace.
pub const PLATFORM_DIRECTORY: &str = ".kubeopencode";
/// Directory below an Agent's workspace that Tasks deliver their contexts to: one subdirectory per Task.
pub const DELIVERIES: &str = ".kubeopencode/tasks";
/// File to which a Task on an Agent's server writes outputs, in the Task's directory below [`DELIVERIES`].
pub const TASK_OUTPUTS: &str = ".outputs";
/// Volume of the companion: what it knows of the workspace before runs. The agent does not have it.
pub const COMPANION: &str = "/companion";
/// Mount of the ConfigMap with context files, in context-init.
pub const CONTEXT_FILES: &str = "/configmap-files";
/// Mounts of ConfigMaps that are copied as directories, in context-init; a number follows.
pub const CONTEXT_DIRECTORY: &str = "/configmap-dir-";
/// Volume of a repository, in the containers that check it out.
pub const GIT: &str = "/git";
/// Name of the checkout in [`GIT`].
pub const GIT_CHECKOUT: &str = "repo";
/// git's configuration in the volume of the first repository.
pub const GIT_CONFIG_FILE: &str = "/git/.gitconfig";
/// Repositories of skills.
pub const SKILLS: &str = "/skills";
/// OpenCode plugins.
pub const PLUGINS: &str = "/plugins";
/// Sessions of an Agent with `persistence.sessions`.
pub const SESSIONS: &str = "/data/sessions";
/// Volume through which the agent's container sends the records of its session to the container `session`.
pub const SESSION: &str = "/session";
/// Socket in [`SESSION`].
pub const RECORDS_SOCKET: &str = "/session/records.sock";
/// Volume that the agent's container shares with the housekeeper.
pub const RESULTS: &str = "/results";
/// File that the shim holds locked while the agent's container runs. It exists once the lock is held.
pub const RUN_LOCK: &str = "/results/lock";
/// File to which the agent writes outputs.
pub const OUTPUTS: &str = "/results/outputs";
/// Copy of the report of the run, for the housekeeper.
pub const REPORT_COPY: &str = "/results/report.json";
/// Patch of the whole change of the run.
pub const PATCH: &str = "/results/changes.patch";
/// Files that the session of a Task on an Agent's server edited, as a JSON list, from `attach` for the housekeeper.
pub const EDITS: &str = "/results/edits.json";
/// Volume that `prep` shares with the housekeeper: files in transit, and the keys of caches. The agent does not have it.
pub const COLLECT: &str = "/collect";
/// Mount of the token for the depot, in `prep` and the housekeeper only.
pub const DEPOT_TOKEN_DIRECTORY: &str = "/var/run/secrets/kubeopencode.io/depot";
/// Name of the file in [`DEPOT_TOKEN_DIRECTORY`].
pub const DEPOT_TOKEN_NAME: &str = "token";
/// The token for the depot.
pub const DEPOT_TOKEN: &str = "/var/run/secrets/kubeopencode.io/depot/token";
/// Volume through which the container that builds an image hands it to the one that pushes it.
pub const IMAGE: &str = "/image";
/// Volume for the images and layers of buildah, one for each of the two containers.
pub const BUILD_STORAGE: &str = "/builds";
/// Mount of the login of the registry, in the container that pushes an image only.
pub const REGISTRY_LOGIN_DIRECTORY: &str = "/var/run/secrets/kubeopencode.io/registry";
/// Name of the file in [`REGISTRY_LOGIN_DIRECTORY`].
pub const REGISTRY_LOGIN_NAME: &str = "config.json";
/// The login of the registry.
pub const REGISTRY_LOGIN: &str = "/var/run/secrets/kubeopencode.io/registry/config.json";
/// Mount of a whole shared workspace, in the Pod that removes directories from it.
pub const WORKSPACES: &str = "/workspaces";
/// Mount of the certificates of a `caBundle`.
pub const CA_DIRECTORY: &str = "/etc/ssl/certs/custom-ca";
/// Name of the file in [`CA_DIRECTORY`].
pub const CA_FILE_NAME: &str = "tls.crt";
/// The certificates of a `caBundle`.
pub const CA_FILE: &str = "/etc/ssl/certs/custom-ca/tls.crt";
/// File whose content Kubernetes keeps as the termination message of a container.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
