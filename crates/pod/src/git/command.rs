//! Running git: clean environment, time limit, errors that say what to do.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::access::Access;
use crate::group::Group;
use crate::redact::Redactor;

/// How a git command failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git.
    #[error("git cannot be started: {0}; the image must contain git")]
    Start(std::io::Error),
    /// It took too long.
    #[error("git {command} did not end within {} s", limit.as_secs())]
    TimedOut {
        /// What was run.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// The remote wants other credentials.
    #[error(
        "{url} refused access: {detail}. Put the right credentials into the Secret of the context's git.secretRef: keys \
         `username` and `password` (a token works) for https, `ssh-privatekey` (and `ssh-known-hosts`) for ssh"
    )]
    Credentials {
        /// The repository.
        url: String,
        /// What git said.
        detail: String,
    },
    /// The host key is not the known one.
    #[error(
        "the host key of {url} is not among the known ones: {detail}. Correct the Secret's key `ssh-known-hosts` \
         (output of ssh-keyscan), if the change is expected"
    )]
    HostKey {
        /// The repository.
        url: String,
        /// What ssh said.
        detail: String,
    },
    /// Anything else.
    #[error("git {command} failed: {detail}")]
    Failed {
        /// What was run.
        command: String,
        /// What git said.
        detail: String,
    },
}

impl GitError {
    /// Whether another attempt cannot help.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Start(_) | Self::Credentials { .. } | Self::HostKey { .. })
    }
}

/// Runs git commands with the access of one repository.
#[derive(Debug)]
pub struct Git<'a> {
    access: &'a Access,
    url: &'a str,
    timeout: Duration,
    redactor: Redactor,
}

impl<'a> Git<'a> {
    /// A runner.
    pub fn new(access: &'a Access, url: &'a str, timeout: Duration, redactor: Redactor) -> Self {
        Self { access, url, timeout, redactor }
    }

    /// Runs git with access to the remote. For directories that only we have written.
    pub async fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        let environment = self.access.environment().into_iter().map(|(name, value)| (name.to_owned(), value));
        self.execute(directory, arguments, environment.collect()).await
    }

    /// Runs git in a directory that the agent may have written: without credentials, without hooks, and without
    /// anything else that a repository's own configuration can make git execute.
    pub async fn run_untrusted(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        self.untrusted(directory, arguments, "none").await
    }

    /// The same, for a command that fetches from a directory of ours.
    pub async fn fetch_untrusted(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        self.untrusted(directory, arguments, "file").await
    }

    async fn untrusted(&self, directory: &Path, arguments: &[&str], protocol: &str) -> Result<String, GitError> {
        let config = self.access.directory().join("untrusted.gitconfig");
        if !config.exists() {
            std::fs::write(&config, "[safe]\n\tdirectory = *\n").map_err(GitError::Start)?;
        }
        let environment = |settings: &[(String, String)]| {
            let mut all: Vec<(String, String)> = [
                ("GIT_CONFIG_GLOBAL", config.display().to_string()),
                ("GIT_ALLOW_PROTOCOL", protocol.to_owned()),
                // Objects that are missing are not fetched from wherever the repository says.
                ("GIT_NO_LAZY_FETCH", "1".to_owned()),
                // Whatever `core.worktree` says.
                ("GIT_DIR", directory.join(".git").display().to_string()),
                ("GIT_WORK_TREE", directory.display().to_string()),
                ("GIT_CONFIG_COUNT", settings.len().to_string()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            // Not as arguments: `-c` would misread a name with `=` in it.
            for (index, (name, value)) in settings.iter().enumerate() {
                all.push((format!("GIT_CONFIG_KEY_{index}"), name.clone()));
                all.push((format!("GIT_CONFIG_VALUE_{index}"), value.clone()));
            }
            all
        };
        let quiet: Vec<(String, String)> = QUIET.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let listing = ["config", "--name-only", "--get-regexp", r"^filter\..*"];
        // Fails when there is no filter, which is the usual case.
        let found = self.execute(directory, &listing, environment(&quiet)).await.unwrap_or_default();
        let settings: Vec<(String, String)> = quiet.into_iter().chain(disarmed(&found)).collect();
        self.execute(directory, arguments, environment(&settings)).await
    }

    async fn execute(
        &self,
        directory: &Path,
        arguments: &[&str],
        environment: Vec<(String, String)>,
    ) -> Result<String, GitError> {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            // GIT_PASSWORD and GIT_SSH_KEY are among them: git and what it starts must not inherit our secrets.
            if name.as_encoded_bytes().starts_with(b"GIT_") || name.as_encoded_bytes().starts_with(b"SSH_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .current_dir(directory)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let child = command.spawn().map_err(GitError::Start)?;
        let group = Group::of(&child);
        let name = self.describe(arguments);
        let output = match tokio::time::timeout(self.timeout, child.wait_with_output()).await {
            Ok(output) => output.map_err(GitError::Start)?,
            Err(_) => return Err(GitError::TimedOut { command: name, limit: self.timeout }),
        };
        group.ended();
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(self.explain(name, &String::from_utf8_lossy(&output.stderr)))
    }

    /// The command without its options, for messages.
    fn describe(&self, arguments: &[&str]) -> String {
        let words: Vec<&str> = arguments.iter().copied().filter(|argument| !argument.starts_with('-')).collect();
        self.redactor.clean(&words.join(" "))
    }

    fn explain(&self, command: String, stderr: &str) -> GitError {
        let detail = self.redactor.clean(&last_lines(stderr));
        let has = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
        let url = self.url.to_owned();
        if has(&["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
            GitError::HostKey { url, detail }
        } else if has(&["No user exists for uid"]) {
            let hint = "ssh needs the running user in /etc/passwd; use https, or a user that the image knows";
            GitError::Failed { command, detail: format!("{detail} ({hint})") }
        } else if has(&[
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "Permission denied (",
            "terminal prompts disabled",
            "The requested URL returned error: 401",
            "The requested URL returned error: 403",
        ]) {
            GitError::Credentials { url, detail }
        } else {
            GitError::Failed { command, detail }
        }
    }
}

/// What makes git execute something in a directory that the agent may have written, switched off.
const QUIET: [(&str, &str); 7] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", "true"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Settings that take the teeth out of the filters that have these names.
fn disarmed(names: &str) -> Vec<(String, String)> {
    let filters: BTreeSet<&str> = names.lines().filter_map(|line| Some(line.rsplit_once('.')?.0)).collect();
    let harmless = [("required", "false"), ("smudge", ""), ("clean", ""), ("process", "")];
    let settings = filters
        .into_iter()
        .flat_map(|filter| harmless.map(|(name, value)| (format!("{filter}.{name}"), value.to_owned())));
    settings.collect()
}

/// The end of what git printed: its fatal line and what stands before it, without progress.
fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap_or(line).trim())
        .filter(|line| !line.is_empty() && !line.starts_with("Cloning into") && !line.starts_with("hint:"))
        .collect();
    let text = lines[lines.len().saturating_sub(4)..].join("; ");
    let start = text.char_indices().rev().nth(599).map_or(0, |(at, _)| at);
    text[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{self, tests::of};
    use crate::git::settings::Settings;

    fn explain(stderr: &str) -> GitError {
        let pairs = [(env::GIT_REPO, "https://h/r"), (env::GIT_PASSWORD, "hunter2")];
        let settings = Settings::from_env(&of(&pairs)).unwrap();
        let access = Access::prepare(&settings).unwrap();
        let git = Git::new(&access, &settings.repository.url, Duration::from_secs(1), settings.redactor());
        git.explain("fetch".to_owned(), stderr)
    }

    #[test]
    fn refusals_say_which_secret_keys_are_expected() {
        for stderr in [
            "fatal: could not read Username for 'https://h': terminal prompts disabled\n",
            "remote: x\nfatal: Authentication failed for 'https://me:hunter2@h/r/'\n",
            "git@h: Permission denied (publickey).\r\nfatal: Could not read from remote repository.\n",
        ] {
            let error = explain(stderr);
            assert!(error.is_permanent());
            let text = error.to_string();
            assert!(text.contains("`username` and `password`") && text.contains("`ssh-privatekey`"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn other_failures_are_worth_another_attempt() {
        let error = explain("fatal: unable to access 'https://h/r/': Could not resolve host: h\n");
        assert!(!error.is_permanent());
        assert!(error.to_string().contains("Could not resolve host"), "{error}");
    }

    #[test]
    fn a_false_host_is_not_retried() {
        assert!(matches!(explain("Host key verification failed.\n"), GitError::HostKey { .. }));
    }
}
