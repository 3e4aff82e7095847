//! Running git: clean environment, time limit, errors that say what to do.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::access::Access;
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
        self.execute(directory, arguments, self.access.environment()).await
    }

    /// Runs git in a directory that the agent may have written: without credentials, without hooks, and without
    /// anything else that a repository's own configuration can make git execute.
    pub async fn run_untrusted(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        let environment = || {
            vec![
                ("GIT_CONFIG_GLOBAL", self.access.directory().join("untrusted.gitconfig").display().to_string()),
                ("GIT_ALLOW_PROTOCOL", "file".to_owned()),
            ]
        };
        let config = self.access.directory().join("untrusted.gitconfig");
        if !config.exists() {
            std::fs::write(&config, "[safe]\n\tdirectory = *\n").map_err(GitError::Start)?;
        }
        let quiet = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"];
        let listing = [&quiet[..], &["config", "--name-only", "--get-regexp", r"^filter\..*"]].concat();
        // Fails when there is no filter, which is the usual case.
        let filters = self.execute(directory, &listing, environment()).await.unwrap_or_default();
        let mut off: Vec<String> = Vec::new();
        for name in filters.lines().filter_map(|line| Some(line.rsplit_once('.')?.0)) {
            off.extend(["-c".to_owned(), format!("{name}.required=false")]);
            for what in ["smudge", "clean", "process"] {
                off.extend(["-c".to_owned(), format!("{name}.{what}=")]);
            }
        }
        let mut all: Vec<&str> = quiet.to_vec();
        all.extend(off.iter().map(String::as_str));
        all.extend(arguments);
        self.execute(directory, &all, environment()).await
    }

    async fn execute(
        &self,
        directory: &Path,
        arguments: &[&str],
        environment: Vec<(&'static str, String)>,
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
        let group = Group(child.id());
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
        let mut words = Vec::new();
        let mut skip = false;
        for argument in arguments {
            if std::mem::take(&mut skip) {
                continue;
            }
            skip = *argument == "-c";
            if !skip && !argument.starts_with('-') {
                words.push(*argument);
            }
        }
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

/// Kills git and its helpers (ssh, remote-https) if we stop waiting for them.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
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
