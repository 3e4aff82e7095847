//! Every environment variable that the Pod helpers read, and how a value becomes a typed setting.
//!
//! The names are the contract with the controller, which writes them into Pods. Names and meanings follow upstream
//! KubeOpenCode v0.1.7 where it has one.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;

/// Looks a variable up. Injected, so that settings are tested without touching the process.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The lookup of the real process.
pub fn process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Directory that the agent works in. Default `/workspace`.
pub const WORKSPACE_DIR: &str = "WORKSPACE_DIR";
/// Extra CA certificates (PEM file), trusted beside the system's.
pub const CUSTOM_CA_CERT_PATH: &str = "CUSTOM_CA_CERT_PATH";
/// PEM bundle that replaces the system's, as for OpenSSL.
pub const SSL_CERT_FILE: &str = "SSL_CERT_FILE";

/// Proxy for http; read by git, npm and our HTTP client. Lower case works too.
pub const HTTP_PROXY: &str = "HTTP_PROXY";
/// Proxy for https.
pub const HTTPS_PROXY: &str = "HTTPS_PROXY";
/// Hosts that are reached without a proxy, such as `.svc,.cluster.local`.
pub const NO_PROXY: &str = "NO_PROXY";

/// context-init: where the context ConfigMap is mounted. Default `/configmap-files`.
pub const CONFIGMAP_PATH: &str = "CONFIGMAP_PATH";
/// context-init: JSON `[{"key"|"keys", "targetPath", "fileMode"}]`, files to copy from the ConfigMap.
pub const FILE_MAPPINGS: &str = "FILE_MAPPINGS";
/// context-init: JSON `[{"sourcePath", "targetPath", "fileMode"}]`, directories to copy.
pub const DIR_MAPPINGS: &str = "DIR_MAPPINGS";
/// context-init: colon-separated directories that may be written beside the workspace.
/// Default: the parent directories of the targets outside of the workspace.
pub const CONTEXT_ROOTS: &str = "CONTEXT_ROOTS";
/// context-init: where our own program is copied to, for the agent's container.
pub const COPY_SELF_TO: &str = "COPY_SELF_TO";
/// context-init: where every container of the Pod sees our program already; then a link to it stands for the copy.
pub const SHARED_PROGRAM: &str = "KUBEOPENCODE_SHARED_PROGRAM";
/// context-init: where the system's certificates and `CUSTOM_CA_CERT_PATH` are written as one file.
pub const COMBINED_CA_BUNDLE: &str = "COMBINED_CA_BUNDLE";

/// git: the repository's URL (https, http, ssh or `git@host:path`).
pub const GIT_REPO: &str = "GIT_REPO";
/// git: branch, tag, full or abbreviated commit, or `HEAD` (default).
pub const GIT_REF: &str = "GIT_REF";
/// git: how many commits of history; 0 = all. Default 1.
pub const GIT_DEPTH: &str = "GIT_DEPTH";
/// git: directory that holds the checkout. Default `/git`.
pub const GIT_ROOT: &str = "GIT_ROOT";
/// git: name of the checkout inside `GIT_ROOT`. Default `repo`.
pub const GIT_LINK: &str = "GIT_LINK";
/// git: user for https, from Secret key `username`.
pub const GIT_USERNAME: &str = "GIT_USERNAME";
/// git: password or token for https, from Secret key `password`.
pub const GIT_PASSWORD: &str = "GIT_PASSWORD";
/// git: private key, or the path of a file that holds it, from Secret key `ssh-privatekey`.
pub const GIT_SSH_KEY: &str = "GIT_SSH_KEY";
/// git: known_hosts lines, or the path of a file that holds them, from Secret key `ssh-known-hosts`.
pub const GIT_SSH_KNOWN_HOSTS: &str = "GIT_SSH_KNOWN_HOSTS";
/// git: directory into which the checkout is merged, once.
pub const GIT_WORKSPACE_DIR: &str = "GIT_WORKSPACE_DIR";
/// git: only this directory of the repository is merged.
pub const GIT_REPO_SUBPATH: &str = "GIT_REPO_SUBPATH";
/// git: JSON list of files and directories that the repository must have.
pub const GIT_REPO_PARTS: &str = "GIT_REPO_PARTS";
/// git: `true` takes a workspace that was kept to the newest commit, as git-sync does.
pub const GIT_FOLLOW: &str = "GIT_FOLLOW";
/// git: `true` also checks out submodules.
pub const GIT_RECURSE_SUBMODULES: &str = "GIT_RECURSE_SUBMODULES";
/// git: attempts in total. Default 3.
pub const GIT_CLONE_RETRIES: &str = "GIT_CLONE_RETRIES";
/// git: wait between attempts, `5`, `5s` or `500ms`. Default 5s.
pub const GIT_CLONE_RETRY_DELAY: &str = "GIT_CLONE_RETRY_DELAY";
/// git: time limit of one git command. Default 1800s.
pub const GIT_TIMEOUT: &str = "GIT_TIMEOUT";
/// git: `true` allows `file://` URLs; for tests.
pub const GIT_ALLOW_FILE: &str = "GIT_ALLOW_FILE";
/// git: `true` goes on without the repository if it cannot be had.
pub const GIT_OPTIONAL: &str = "GIT_OPTIONAL";
/// git-sync: wait between looks at the remote, `300`, `300s` or `5m`. Default 300s.
pub const GIT_SYNC_INTERVAL: &str = "GIT_SYNC_INTERVAL";

/// url-fetch: what to fetch (http or https).
pub const URL_SOURCE: &str = "URL_SOURCE";
/// url-fetch: the file to write.
pub const URL_TARGET: &str = "URL_TARGET";
/// url-fetch: JSON object of request headers.
pub const URL_HEADERS: &str = "URL_HEADERS";
/// url-fetch: time limit of the whole transfer. Default 30s.
pub const URL_TIMEOUT: &str = "URL_TIMEOUT";
/// url-fetch: largest body in bytes. Default 10485760.
pub const URL_MAX_BYTES: &str = "URL_MAX_BYTES";
/// url-fetch: `true` skips certificate checks.
pub const URL_INSECURE: &str = "URL_INSECURE";
/// url-fetch: bearer token; wins over user and password.
pub const URL_AUTH_TOKEN: &str = "URL_AUTH_TOKEN";
/// url-fetch: user for basic authentication.
pub const URL_AUTH_USERNAME: &str = "URL_AUTH_USERNAME";
/// url-fetch: password for basic authentication.
pub const URL_AUTH_PASSWORD: &str = "URL_AUTH_PASSWORD";
/// url-fetch: octal mode of the written file. Default 0644.
pub const URL_FILE_MODE: &str = "URL_FILE_MODE";
/// url-fetch: `true` goes on without the file if it cannot be had.
pub const URL_OPTIONAL: &str = "URL_OPTIONAL";
/// url-fetch: `true` allows targets on this machine; for tests and the local platform.
pub const URL_ALLOW_LOOPBACK: &str = "URL_ALLOW_LOOPBACK";

/// plugin-init: JSON list of npm package specs.
pub const PLUGIN_PACKAGES: &str = "PLUGIN_PACKAGES";
/// plugin-init: where they are installed. Default `/plugins`.
pub const PLUGIN_DIR: &str = "PLUGIN_DIR";
/// plugin-init: time limit of the installation. Default 600s.
pub const PLUGIN_TIMEOUT: &str = "PLUGIN_TIMEOUT";
/// plugin-init: the npm program. Default `npm`.
pub const PLUGIN_NPM: &str = "PLUGIN_NPM";

/// probe: what must answer 200 with JSON.
pub const PROBE_URL: &str = "PROBE_URL";
/// attach, probe: password of the OpenCode server.
pub const OPENCODE_SERVER_PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
/// attach, probe: user of the OpenCode server. Default `opencode`.
pub const OPENCODE_SERVER_USERNAME: &str = "OPENCODE_SERVER_USERNAME";
/// attach, shim: the Task's namespace.
pub const TASK_NAMESPACE: &str = "TASK_NAMESPACE";
/// attach, shim: the Task's name.
pub const TASK_NAME: &str = "TASK_NAME";
/// attach, shim: the Task's UID.
pub const TASK_UID: &str = "TASK_UID";
/// attach, shim: the run's epoch.
pub const TASK_EPOCH: &str = "TASK_EPOCH";
/// attach: file whose bytes are the prompt when no message is given.
pub const PROMPT_FILE: &str = "PROMPT_FILE";
/// attach: file whose text goes into the request's `system`.
pub const KUBEOPENCODE_SYSTEM_FILE: &str = "KUBEOPENCODE_SYSTEM_FILE";
/// attach: a directory below the workspace that is put on the server at the same path before the prompt is sent.
pub const DELIVERY_DIR: &str = "DELIVERY_DIR";
/// attach: what to do with a permission request: `Reject` (default), `Approve`, `Wait` for a person, or `Always`, which
/// waits for a person at every tool call.
pub const APPROVAL_MODE: &str = "APPROVAL_MODE";
/// attach: how long `Wait` waits for a person before it rejects. Default 3600.
pub const APPROVAL_TIMEOUT_SECONDS: &str = "APPROVAL_TIMEOUT_SECONDS";
/// attach, shim: no progress for this long ends the run. Default 900.
pub const STALL_TIMEOUT_SECONDS: &str = "STALL_TIMEOUT_SECONDS";
/// attach, shim: the most tokens that the run may use. Default: any.
pub const BUDGET_MAX_TOKENS: &str = "BUDGET_MAX_TOKENS";
/// attach, shim: the most that the run may cost, such as `2.50`. Default: any.
pub const BUDGET_MAX_COST: &str = "BUDGET_MAX_COST";
/// attach: how long the server may take to become ready. Default 120.
pub const START_TIMEOUT_SECONDS: &str = "START_TIMEOUT_SECONDS";
/// attach: how long the server may be out of reach during a run. Default 60.
pub const SERVER_LOST_SECONDS: &str = "SERVER_LOST_SECONDS";
/// attach, shim: where the outcome is written as JSON; init containers: where the reason of a failure is written.
/// Default `/dev/termination-log`.
pub const OUTCOME_FILE: &str = "OUTCOME_FILE";

/// shim: `opencode-json` reads the events of `opencode run --format json`; `client` keeps an outcome that the command
/// left itself; default `plain`.
pub const SHIM_FORMAT: &str = "SHIM_FORMAT";
/// shim: time between SIGTERM and SIGKILL. Default 25.
pub const SHIM_GRACE_SECONDS: &str = "SHIM_GRACE_SECONDS";
/// shim: directories, separated by colons, that are put in front of the command's `PATH`.
pub const SHIM_PATH_PREPEND: &str = "SHIM_PATH_PREPEND";
/// shim: file whose bytes become the command's standard input.
pub const SHIM_STDIN_FILE: &str = "SHIM_STDIN_FILE";

/// A variable is missing or its value cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingError {
    /// A variable without a default is not set.
    #[error("{name} is not set; set it to {expected}")]
    Missing {
        /// The variable.
        name: &'static str,
        /// What it should hold.
        expected: &'static str,
    },
    /// The value does not parse.
    #[error("{name} cannot be used ({problem}); set it to {expected}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// What is wrong with the value. Never the value of a secret.
        problem: String,
        /// What it should hold.
        expected: &'static str,
    },
}

/// The value, with an empty one counted as unset: Kubernetes writes optional Secret keys that way.
pub fn text(env: Lookup<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.is_empty())
}

/// A value that must be there.
pub fn required(env: Lookup<'_>, name: &'static str, expected: &'static str) -> Result<String, SettingError> {
    text(env, name).ok_or(SettingError::Missing { name, expected })
}

/// A path, or its default.
pub fn path(env: Lookup<'_>, name: &str, default: &str) -> PathBuf {
    PathBuf::from(text(env, name).unwrap_or_else(|| default.to_owned()))
}

/// A URL that must be there.
pub fn url(env: Lookup<'_>, name: &'static str, expected: &'static str) -> Result<Url, SettingError> {
    let address = required(env, name, expected)?;
    Url::parse(address.trim()).map_err(|error| SettingError::Invalid { name, problem: error.to_string(), expected })
}

/// A number, or its default.
pub fn number<T: FromStr>(env: Lookup<'_>, name: &'static str, default: T) -> Result<T, SettingError> {
    match text(env, name) {
        None => Ok(default),
        Some(value) => value.trim().parse().map_err(|_| SettingError::Invalid {
            name,
            problem: format!("`{value}` is not a number in range"),
            expected: "a whole number that is not negative",
        }),
    }
}

/// `true`/`1`/`yes`, or `false`/`0`/`no`/unset.
pub fn flag(env: Lookup<'_>, name: &'static str) -> Result<bool, SettingError> {
    match text(env, name).map(|value| value.trim().to_ascii_lowercase()).as_deref() {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("true" | "1" | "yes") => Ok(true),
        Some(other) => Err(SettingError::Invalid {
            name,
            problem: format!("`{other}` is neither true nor false"),
            expected: "true or false",
        }),
    }
}

/// `30` (seconds), `30s`, `500ms`, `5m` or `1h`; zero is refused, since every wait is bounded and makes sense.
pub fn duration(env: Lookup<'_>, name: &'static str, default: Duration) -> Result<Duration, SettingError> {
    let Some(value) = text(env, name) else { return Ok(default) };
    let value = value.trim();
    let digits = value.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let parsed = digits.parse::<u64>().ok().and_then(|number| match &value[digits.len()..] {
        "" | "s" => Some(Duration::from_secs(number)),
        "ms" => Some(Duration::from_millis(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    });
    // A century is far beyond any sense and far below what overflows clocks.
    parsed.filter(|duration| !duration.is_zero() && duration.as_secs() < 3_200_000_000).ok_or_else(|| {
        SettingError::Invalid {
            name,
            problem: format!("`{value}` is not a duration"),
            expected: "a positive duration such as 30, 30s, 500ms or 5m",
        }
    })
}

/// JSON, or the type's default.
pub fn json<T: serde::de::DeserializeOwned + Default>(
    env: Lookup<'_>,
    name: &'static str,
    expected: &'static str,
) -> Result<T, SettingError> {
    match text(env, name) {
        None => Ok(T::default()),
        Some(value) => serde_json::from_str(&value).map_err(|error| SettingError::Invalid {
            name,
            problem: format!("line {} column {} is not what was expected", error.line(), error.column()),
            expected,
        }),
    }
}

/// An octal file mode such as `0644`; only the permission bits.
pub fn mode(env: Lookup<'_>, name: &'static str) -> Result<Option<u32>, SettingError> {
    let Some(value) = text(env, name) else { return Ok(None) };
    match u32::from_str_radix(value.trim().trim_start_matches("0o"), 8) {
        Ok(mode) if mode <= 0o777 => Ok(Some(mode)),
        _ => Err(SettingError::Invalid {
            name,
            problem: format!("`{value}` is not an octal mode"),
            expected: "an octal mode from 0000 to 0777",
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A lookup over a fixed list.
    pub(crate) fn of<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        let check = |value: &str, expected: Option<Duration>| {
            let pairs = [("D", value)];
            let env = of(&pairs);
            assert_eq!(duration(&env, "D", Duration::from_secs(9)).ok(), expected, "{value}");
        };
        check("", Some(Duration::from_secs(9)));
        check("30", Some(Duration::from_secs(30)));
        check("500ms", Some(Duration::from_millis(500)));
        check("5m", Some(Duration::from_mins(5)));
        check("1h", Some(Duration::from_hours(1)));
        check("0", None);
        check("soon", None);
        check("-1s", None);
        check("99999999999999999999", None);
        check("99999999999999h", None);
    }

    #[test]
    fn modes_are_octal_and_hold_only_permissions() {
        let check = |value: &str, expected: Option<u32>| {
            let pairs = [("M", value)];
            assert_eq!(mode(&of(&pairs), "M").ok().flatten(), expected, "{value}");
        };
        check("0644", Some(0o644));
        check("755", Some(0o755));
        check("4755", None);
        check("999", None);
    }

    #[test]
    fn an_error_says_what_to_set() {
        let error = required(&of(&[]), GIT_REPO, "the URL of a git repository").unwrap_err();
        assert_eq!(error.to_string(), "GIT_REPO is not set; set it to the URL of a git repository");
        let error = flag(&of(&[("URL_INSECURE", "maybe")]), URL_INSECURE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "URL_INSECURE cannot be used (`maybe` is neither true nor false); set it to true or false"
        );
    }

    #[test]
    fn a_json_error_does_not_repeat_the_value() {
        let pairs = [(URL_HEADERS, r#"{"Authorization": "Bearer hunter2""#)];
        let error = json::<Vec<String>>(&of(&pairs), URL_HEADERS, "a JSON list").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
