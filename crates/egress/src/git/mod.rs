//! git with a hardened environment, limits, and errors that say what to do.

mod credentials;
mod environment;
mod error;
mod repository;

use std::{collections::BTreeSet, ffi::OsString, io, path::Path, time::Duration};

use tokio::process::Command;

pub use self::{
    credentials::Credentials,
    environment::{Access, AccessError, View},
    error::{Cause, GitError},
    repository::{BadRepository, Repository, Transport, check_ref},
};
use self::{
    environment::{Directory, Environment},
    error::last_lines,
};
use crate::{
    authorities::Authorities,
    process::{self, RunError},
    redact::Redactor,
};

/// Runs git commands with the credentials of one repository. The private files with them are deleted when it is
/// dropped.
#[derive(Debug)]
pub struct Git {
    environment: Environment,
    url: String,
    timeout: Duration,
    redactor: Redactor,
}

impl Git {
    /// Writes the private files that git and ssh need.
    pub fn prepare(access: &Access<'_>) -> Result<Self, AccessError> {
        Ok(Self {
            environment: Environment::prepare(access)?,
            url: access.repository.url.clone(),
            timeout: access.timeout,
            // A user name alone is a token.
            redactor: Redactor::new(
                access.credentials.password.clone().or_else(|| access.credentials.username.clone()),
            ),
        })
    }

    /// git for directories of this machine only, without credentials.
    pub fn local(timeout: Duration, process: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, AccessError> {
        Self::prepare(&Access {
            repository: &Repository { url: String::new(), transport: Transport::File, userinfo: None },
            credentials: &Credentials::default(),
            authorities: &Authorities::default(),
            allow_file: false,
            timeout,
            process,
        })
    }

    /// The private directory, which other files for git may be put into.
    pub fn directory(&self) -> &Path {
        self.environment.directory()
    }

    /// Runs git with the credentials, in a directory that only this process has written.
    pub async fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        self.execute(directory, arguments, self.environment.variables(Directory::Own)).await
    }

    /// Runs git in a directory that the agent may have written: without credentials, hooks, or anything else that a
    /// repository's own configuration makes git execute.
    pub async fn run_untrusted(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        self.untrusted(directory, arguments, "none").await
    }

    /// The same for a command that fetches from a local directory.
    pub async fn fetch_untrusted(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        self.untrusted(directory, arguments, "file").await
    }

    /// Finds the filters that a repository of the agent configures, so that no command of the view executes them. Required
    /// before the first command, and again after the agent may have changed the configuration.
    pub async fn disarm(&self, view: &mut View) {
        view.filters = self.filters(&view.work_tree, "none", Some(view)).await;
    }

    /// Runs git on a view of a directory that the agent may have written.
    pub async fn run_view(&self, view: &View, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        self.output(&view.work_tree, arguments, self.view_variables(view)).await
    }

    /// The same for a command whose output may be long: returns the first `most` bytes, and whether there are more.
    pub async fn head_view(&self, view: &View, arguments: &[&str], most: usize) -> Result<(Vec<u8>, bool), GitError> {
        let mut command = command(&view.work_tree, arguments, self.view_variables(view));
        let name = self.describe(arguments);
        let head = process::head(&mut command, self.timeout, most).await;
        head.map_err(|error| self.stopped(name, error))
    }

    /// The same for a command whose output is too long to hold: passes the first `most` bytes to `into`, and returns the
    /// number of all bytes, which are counted up to `counted`.
    pub async fn copy_view(
        &self,
        view: &View,
        arguments: &[&str],
        (most, counted): (u64, u64),
        into: &mut impl io::Write,
    ) -> Result<u64, GitError> {
        let mut command = command(&view.work_tree, arguments, self.view_variables(view));
        let name = self.describe(arguments);
        let copied = process::copy(&mut command, self.timeout, most, counted, into).await;
        let (status, total) = copied.map_err(|error| self.stopped(name.clone(), error))?;
        if status.success() || total > counted { Ok(total) } else { Err(self.explain(name, "")) }
    }

    fn view_variables(&self, view: &View) -> Vec<(OsString, OsString)> {
        let (path, filters) = (view.work_tree.as_path(), view.filters.as_slice());
        self.environment.variables(Directory::Untrusted { path, protocol: "none", filters, view: Some(view) })
    }

    async fn untrusted(&self, path: &Path, arguments: &[&str], protocol: &str) -> Result<String, GitError> {
        let filters = self.filters(path, protocol, None).await;
        let enters = Directory::Untrusted { path, protocol, filters: &filters, view: None };
        self.execute(path, arguments, self.environment.variables(enters)).await
    }

    /// The filters that the configuration of a repository defines.
    async fn filters(&self, path: &Path, protocol: &str, view: Option<&View>) -> Vec<String> {
        let variables = self.environment.variables(Directory::Untrusted { path, protocol, filters: &[], view });
        let listing = ["config", "--name-only", "--get-regexp", r"^filter\..*"];
        // Fails when there is no filter, which is the usual case.
        let found = self.execute(path, &listing, variables).await.unwrap_or_default();
        let filters: BTreeSet<&str> = found.lines().filter_map(|line| Some(line.rsplit_once('.')?.0)).collect();
        filters.into_iter().map(str::to_owned).collect()
    }

    async fn execute(
        &self,
        directory: &Path,
        arguments: &[&str],
        variables: Vec<(OsString, OsString)>,
    ) -> Result<String, GitError> {
        let output = self.output(directory, arguments, variables).await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    async fn output(
        &self,
        directory: &Path,
        arguments: &[&str],
        variables: Vec<(OsString, OsString)>,
    ) -> Result<Vec<u8>, GitError> {
        let mut command = command(directory, arguments, variables);
        let name = self.describe(arguments);
        let finished = process::run(&mut command, self.timeout).await;
        let finished = finished.map_err(|error| self.stopped(name.clone(), error))?;
        if finished.status.success() {
            return Ok(finished.stdout);
        }
        Err(self.explain(name, &String::from_utf8_lossy(&finished.stderr)))
    }

    fn stopped(&self, command: String, error: RunError) -> GitError {
        match error {
            RunError::Start(error) => GitError::Start(error),
            RunError::TimedOut => GitError::TimedOut { command, limit: self.timeout },
            RunError::TooLong => GitError::TooLong { command },
        }
    }

    /// The command without its options, for messages.
    fn describe(&self, arguments: &[&str]) -> String {
        let words: Vec<&str> = arguments.iter().copied().filter(|argument| !argument.starts_with('-')).collect();
        self.redactor.clean(&words.join(" "))
    }

    fn explain(&self, command: String, stderr: &str) -> GitError {
        let mut detail = self.redactor.clean(&last_lines(stderr));
        let url = self.url.clone();
        match Cause::of(stderr) {
            Cause::HostKey => GitError::HostKey { url, detail },
            Cause::Credentials => GitError::Credentials { url, detail },
            cause => {
                if cause == Cause::NoUser {
                    detail += " (ssh needs the running user in /etc/passwd; use https, or a user that the image knows)";
                }
                GitError::Failed { command, detail, cause }
            }
        }
    }
}

fn command(directory: &Path, arguments: &[&str], variables: Vec<(OsString, OsString)>) -> Command {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(directory).env_clear().envs(variables);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(stderr: &str) -> GitError {
        let access = Access {
            repository: &Repository::parse("https://h/r", false).unwrap(),
            credentials: &Credentials { password: Some("hunter2".to_owned()), ..Credentials::default() },
            authorities: &Authorities::default(),
            allow_file: false,
            timeout: Duration::from_secs(1),
            process: &|_| None,
        };
        Git::prepare(&access).unwrap().explain("fetch".to_owned(), stderr)
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
