//! Access to the remote: credentials in private files, never in arguments, URLs or git's own configuration.

use std::fmt::Write as _;
use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::settings::Settings;
use crate::repository::{Transport, percent_encode};
use crate::trust::TrustError;

/// Token services ignore the user but refuse an empty one.
const TOKEN_USER: &str = "x-access-token";

/// A private directory with everything git needs; removed when dropped.
#[derive(Debug)]
pub struct Access {
    directory: tempfile::TempDir,
    ssh_command: Option<String>,
    authorities: Option<PathBuf>,
    protocols: &'static str,
}

/// Access cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A private file cannot be written.
    #[error("the private files for git cannot be written: {0}; /tmp must be writable")]
    Private(#[from] io::Error),
    /// A key or a list of hosts cannot be read.
    #[error("{name} names the file {path:?}, which cannot be read: {source}")]
    Read {
        /// The variable.
        name: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The CA bundle.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

impl Access {
    /// Writes the private files.
    pub fn prepare(settings: &Settings) -> Result<Self, AccessError> {
        let directory = tempfile::Builder::new()
            .prefix("kubeopencode-git-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let write = |name: &str, content: &[u8]| write_private(directory.path(), name, content);
        // `*`: the checkout may belong to another user of the same Pod.
        let mut config = String::from("[safe]\n\tdirectory = *\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n");
        config.push_str("[http]\n\tlowSpeedLimit = 1\n\tlowSpeedTime = 120\n");
        if let (Transport::Http { scheme, authority }, Some(password)) =
            (&settings.repository.transport, &settings.credentials.password)
        {
            let user = settings.credentials.username.as_deref().unwrap_or(TOKEN_USER);
            let line = format!(
                "{scheme}://{}:{}@{authority}\n",
                percent_encode(user.trim_end()),
                percent_encode(password.trim_end())
            );
            let store = write("credentials", line.as_bytes())?;
            // The empty helper drops every helper that was configured before ours.
            let quoted = shell_quote(&store).replace('\\', "\\\\").replace('"', "\\\"");
            config.push_str("[credential]\n\thelper =\n");
            let _ = writeln!(config, "\thelper = \"store --file={quoted}\"");
        }
        write("gitconfig", config.as_bytes())?;
        let ssh_command = match settings.repository.transport {
            Transport::Ssh => Some(prepare_ssh(settings, directory.path())?),
            _ => None,
        };
        let authorities = match settings.trust.custom {
            Some(_) => Some(write("authorities.pem", &settings.trust.pem()?)?),
            None => None,
        };
        let protocols = if settings.allow_file { "https:http:ssh:file" } else { "https:http:ssh" };
        Ok(Self { directory, ssh_command, authorities, protocols })
    }

    /// The private directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The environment of a git command that may talk to the remote.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = vec![
            ("GIT_CONFIG_GLOBAL", self.directory.path().join("gitconfig").display().to_string()),
            ("GIT_ALLOW_PROTOCOL", self.protocols.to_owned()),
        ];
        if let Some(command) = &self.ssh_command {
            environment.push(("GIT_SSH_COMMAND", command.clone()));
        }
        if let Some(authorities) = &self.authorities {
            environment.push(("GIT_SSL_CAINFO", authorities.display().to_string()));
        }
        environment
    }
}

fn prepare_ssh(settings: &Settings, directory: &Path) -> Result<String, AccessError> {
    // BatchMode: never ask. The user's own configuration is not ours to use (-F /dev/null).
    let mut command = "ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=30".to_owned();
    if let Some(key) = &settings.credentials.ssh_key {
        let mut key = content_or_file(crate::env::GIT_SSH_KEY, key)?;
        // ssh refuses a key whose last line is not ended, which is how many Secrets are made.
        if !key.ends_with('\n') {
            key.push('\n');
        }
        let path = write_private(directory, "ssh-key", key.replace("\r\n", "\n").as_bytes())?;
        let _ = write!(command, " -o IdentitiesOnly=yes -i {}", shell_quote(&path));
    }
    let (hosts, strict) = if let Some(hosts) = &settings.credentials.known_hosts {
        (content_or_file(crate::env::GIT_SSH_KNOWN_HOSTS, hosts)? + "\n", "yes")
    } else {
        tracing::warn!(
            "no ssh-known-hosts in the Secret: the host key is accepted as it comes; add the key ssh-known-hosts \
             (output of ssh-keyscan) to be safe from a false host"
        );
        (String::new(), "accept-new")
    };
    let path = write_private(directory, "known-hosts", hosts.as_bytes())?;
    let _ = write!(
        command,
        " -o StrictHostKeyChecking={strict} -o UserKnownHostsFile={} -o GlobalKnownHostsFile=/dev/null",
        shell_quote(&path)
    );
    Ok(command)
}

/// A Secret key may be given as content or as the path where it is mounted.
fn content_or_file(name: &'static str, value: &str) -> Result<String, AccessError> {
    let value = value.trim_start();
    if value.starts_with('/') && !value.trim_end().contains('\n') {
        let path = PathBuf::from(value.trim_end());
        return std::fs::read_to_string(&path).map_err(|source| AccessError::Read { name, path, source });
    }
    Ok(value.to_owned())
}

fn write_private(directory: &Path, name: &str, content: &[u8]) -> io::Result<PathBuf> {
    let path = directory.join(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    io::Write::write_all(&mut file, content)?;
    Ok(path)
}

fn shell_quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{self, tests::of};
    use std::os::unix::fs::MetadataExt as _;

    fn access(pairs: &[(&str, &str)]) -> Access {
        Access::prepare(&Settings::from_env(&of(pairs)).unwrap()).unwrap()
    }

    fn read(access: &Access, name: &str) -> String {
        std::fs::read_to_string(access.directory().join(name)).unwrap()
    }

    #[test]
    fn a_password_is_in_one_private_file_and_escaped() {
        let line = access(&[(env::GIT_REPO, "https://h/r"), (env::GIT_USERNAME, "me\n"), (env::GIT_PASSWORD, "pw\n")]);
        assert_eq!(read(&line, "credentials"), "https://me:pw@h\n");
        let access = access(&[(env::GIT_REPO, "https://h:1/r"), (env::GIT_PASSWORD, "p@ss\nhttps://x:y@evil")]);
        assert_eq!(read(&access, "credentials"), "https://x-access-token:p%40ss%0Ahttps%3A%2F%2Fx%3Ay%40evil@h:1\n");
        let mode = access.directory().join("credentials").metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(access.directory().metadata().unwrap().mode() & 0o777, 0o700);
        let environment = format!("{:?}", access.environment());
        assert!(!environment.contains("p@ss") && !environment.contains("p%40ss"), "{environment}");
    }

    #[test]
    fn host_keys_are_strict_when_known_and_noted_otherwise() {
        let known = access(&[
            (env::GIT_REPO, "git@h:r"),
            (env::GIT_SSH_KEY, "KEY\r\nLINE"),
            (env::GIT_SSH_KNOWN_HOSTS, "h ssh-ed25519 AAAA"),
        ]);
        let command = known.ssh_command.clone().unwrap();
        assert!(command.contains("StrictHostKeyChecking=yes") && command.contains("IdentitiesOnly=yes"), "{command}");
        assert_eq!(read(&known, "ssh-key"), "KEY\nLINE\n");
        assert_eq!(read(&known, "known-hosts"), "h ssh-ed25519 AAAA\n");
        let unknown = access(&[(env::GIT_REPO, "git@h:r")]).ssh_command.unwrap();
        assert!(unknown.contains("StrictHostKeyChecking=accept-new"), "{unknown}");
    }

    #[test]
    fn a_key_may_be_a_path_and_a_missing_path_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("id");
        std::fs::write(&path, "KEY").unwrap();
        let path = path.display().to_string();
        let access = access(&[(env::GIT_REPO, "git@h:r"), (env::GIT_SSH_KEY, &path)]);
        assert_eq!(read(&access, "ssh-key"), "KEY\n");
        let pairs = [(env::GIT_REPO, "git@h:r"), (env::GIT_SSH_KEY, "/no/such/key")];
        let error = Access::prepare(&Settings::from_env(&of(&pairs)).unwrap()).unwrap_err().to_string();
        assert!(error.contains("/no/such/key") && error.contains("GIT_SSH_KEY"), "{error}");
    }
}
