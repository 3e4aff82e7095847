//! Access to the repository of a context: the files that variables name, and the variables of this process.

use std::{io, path::PathBuf};

use egress::{Access, AccessError, Credentials, Git, Transport};

use super::settings::Settings;
use crate::env;

/// git cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A key or a list of hosts cannot be read.
    #[error("{name} names the file {path:?}, which cannot be read: {source}")]
    Read { name: &'static str, path: PathBuf, source: io::Error },
    /// The private files cannot be written, or the certificates cannot be read.
    #[error(transparent)]
    Access(#[from] AccessError),
}

/// Prepares git for the repository.
pub fn prepare(settings: &Settings) -> Result<Git, PrepareError> {
    let mut credentials = settings.credentials.clone();
    if matches!(settings.repository.transport, Transport::Ssh { .. }) {
        credentials = read_files(credentials)?;
        if credentials.known_hosts.is_none() {
            tracing::warn!(
                "no ssh-known-hosts in the Secret: any host key is accepted; add the key ssh-known-hosts \
                 (output of ssh-keyscan) to detect a false host"
            );
        }
    }
    Ok(Git::prepare(&Access {
        repository: &settings.repository,
        credentials: &credentials,
        authorities: &settings.authorities,
        allow_file: settings.allow_file,
        timeout: settings.timeout,
        process: &|name| std::env::var_os(name),
    })?)
}

/// Replaces paths by the content of the files.
fn read_files(credentials: Credentials) -> Result<Credentials, PrepareError> {
    let read = |name, value: Option<String>| value.map(|value| content_or_file(name, &value)).transpose();
    Ok(Credentials {
        ssh_key: read(env::GIT_SSH_KEY, credentials.ssh_key)?,
        known_hosts: read(env::GIT_SSH_KNOWN_HOSTS, credentials.known_hosts)?,
        ..credentials
    })
}

/// A key of a Secret may be given as content or as the path of its mount.
fn content_or_file(name: &'static str, value: &str) -> Result<String, PrepareError> {
    let value = value.trim_start();
    if value.starts_with('/') && !value.trim_end().contains('\n') {
        let path = PathBuf::from(value.trim_end());
        return std::fs::read_to_string(&path).map_err(|source| PrepareError::Read { name, path, source });
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    #[test]
    fn a_key_may_be_a_path_and_a_missing_path_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("id");
        std::fs::write(&path, "KEY").unwrap();
        let path = path.display().to_string();
        let prepare = |key: &str| {
            let pairs = [(env::GIT_REPO, "git@h:r"), (env::GIT_SSH_KEY, key)];
            prepare(&Settings::from_env(&of(&pairs)).unwrap())
        };
        let git = prepare(&path).unwrap();
        assert_eq!(std::fs::read_to_string(git.directory().join("ssh-key")).unwrap(), "KEY\n");
        let error = prepare("/no/such/key").unwrap_err().to_string();
        assert!(error.contains("/no/such/key") && error.contains("GIT_SSH_KEY"), "{error}");
    }
}
