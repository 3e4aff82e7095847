//! How git commands fail, and what git's messages mean.

use std::{io, time::Duration};

/// How a git command failed. The texts of git in it are redacted.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git is missing or cannot be executed.
    #[error("git cannot be started: {0}; the image must contain git")]
    Start(io::Error),
    /// The time limit was exceeded.
    #[error("git {command} did not end within {} s", limit.as_secs())]
    TimedOut {
        /// Without options.
        command: String,
        limit: Duration,
    },
    /// The output limit was exceeded.
    #[error("git {command} printed too much")]
    TooLong {
        /// Without options.
        command: String,
    },
    /// The host refused the credentials.
    #[error(
        "{url} refused access: {detail}. Put the right credentials into the Secret of the context's git.secretRef: keys \
         `username` and `password` (a token works) for https, `ssh-privatekey` (and `ssh-known-hosts`) for ssh"
    )]
    Credentials {
        url: String,
        /// The end of git's messages.
        detail: String,
    },
    /// The host key is not the known one.
    #[error(
        "the host key of {url} is not among the known ones: {detail}. Correct the Secret's key `ssh-known-hosts` \
         (output of ssh-keyscan), if the change is expected"
    )]
    HostKey {
        url: String,
        /// The end of ssh's messages.
        detail: String,
    },
    /// Any other failure.
    #[error("git {command} failed: {detail}")]
    Failed {
        /// Without options.
        command: String,
        /// The end of git's messages.
        detail: String,
        /// For messages that must not quote git.
        cause: Cause,
    },
}

impl GitError {
    /// Whether a retry is useless.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Start(_) | Self::Credentials { .. } | Self::HostKey { .. })
    }
}

/// Why git failed, classified by its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// ssh does not know the host's key, or knows another one.
    HostKey,
    /// ssh needs an entry of /etc/passwd for the running user.
    NoUser,
    /// ssh is not installed.
    NoSsh,
    /// The host refused the credentials, or a key cannot be read.
    Credentials,
    /// The name of the host does not resolve.
    UnknownHost,
    /// The host does not answer.
    Unreachable,
    /// The host has no such repository.
    NoRepository,
    Other,
}

/// Messages of git and ssh (with `LC_ALL=C`) and their causes. The first match counts.
const MESSAGES: [(Cause, &[&str]); 7] = [
    (Cause::HostKey, &["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"]),
    (Cause::NoUser, &["No user exists for uid"]),
    (Cause::NoSsh, &["ssh: not found", "cannot run ssh", "ssh: command not found"]),
    (
        Cause::Credentials,
        &[
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            // With the parenthesis: a file system denies permission too.
            "Permission denied (",
            "Permission denied, please try again",
            "terminal prompts disabled",
            "The requested URL returned error: 401",
            "The requested URL returned error: 403",
            "\": invalid format",
            "\": error in libcrypto",
        ],
    ),
    (Cause::UnknownHost, &["Could not resolve host"]),
    (Cause::Unreachable, &["timed out", "Connection refused", "No route to host"]),
    (Cause::NoRepository, &["not found", "does not exist", "not appear to be a git repository"]),
];

impl Cause {
    /// The cause behind the messages of git.
    pub(super) fn of(stderr: &str) -> Self {
        let found = MESSAGES.iter().find(|(_, fragments)| fragments.iter().any(|fragment| stderr.contains(fragment)));
        found.map_or(Self::Other, |(cause, _)| *cause)
    }
}

/// The end of git's messages: the fatal line and the lines before it, without progress.
pub(super) fn last_lines(stderr: &str) -> String {
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

    #[test]
    fn the_messages_of_git_and_ssh_are_understood() {
        for (stderr, cause) in [
            ("Host key verification failed.\n", Cause::HostKey),
            ("No user exists for uid 1000570000\n", Cause::NoUser),
            ("sh: 1: ssh: not found\nfatal: Could not read from remote repository.\n", Cause::NoSsh),
            ("git@h: Permission denied (publickey).\n", Cause::Credentials),
            ("Load key \"/tmp/k\": invalid format\n", Cause::Credentials),
            ("Load key \"/tmp/k\": error in libcrypto\n", Cause::Credentials),
            ("ssh: Could not resolve hostname h: Name or service not known\n", Cause::UnknownHost),
            ("ssh: connect to host h port 22: Connection timed out\n", Cause::Unreachable),
            ("ssh: connect to host h port 22: Connection refused\n", Cause::Unreachable),
            ("ERROR: Repository not found.\n", Cause::NoRepository),
            ("fatal: cannot create directory at 'a': Permission denied\n", Cause::Other),
        ] {
            assert_eq!(Cause::of(stderr), cause, "{stderr}");
        }
    }
}
