//! The environment of git and ssh, and the private files that it points at.
//!
//! [`Environment::variables`] is the only place where variables of git are set.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::{OpenOptions, Permissions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

use super::{
    credentials::Credentials,
    repository::{Repository, Transport},
};
use crate::{
    authorities::{Authorities, AuthoritiesError},
    userinfo::percent_encode,
};

/// Variables of this process that git and ssh get: where programs and libraries are, proxies, the certificates of the
/// system, Kerberos, and the user database of images that run with any user ID. All others stay here: our own secrets are
/// among them.
const INHERITED: [&str; 18] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NSS_WRAPPER_PASSWD",
    "NSS_WRAPPER_GROUP",
    "KRB5_CONFIG",
    "KRB5CCNAME",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// Makes git treat every directory as safe: a checkout may belong to another user of the same Pod.
const SAFE: &str = "[safe]\n\tdirectory = *\n";
/// The configuration of git in our own directories. A connection of less than one byte per second is broken after two
/// minutes.
const OWN: &str = "[core]\n\thooksPath = /dev/null\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n\
                   [http]\n\tlowSpeedLimit = 1\n\tlowSpeedTime = 120\n";

/// Settings that stop git from executing programs of a repository's own configuration.
const DISARMING: [(&str, &str); 7] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", "true"),
    ("fetch.recurseSubmodules", "false"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Settings for a [`View`]: the whole index, written quickly, without messages about line ends and nested repositories.
const VIEWING: [(&str, &str); 8] = [
    ("core.untrackedCache", "false"),
    ("core.splitIndex", "false"),
    ("core.sparseCheckout", "false"),
    ("index.sparse", "false"),
    ("core.safecrlf", "false"),
    ("core.looseCompression", "1"),
    ("core.fsync", "none"),
    ("advice.addEmbeddedRepo", "false"),
];

/// A work tree that the agent may have written, seen through an index and objects of our own: nothing is written into
/// the agent's repository.
#[derive(Clone, Debug)]
pub struct View {
    /// The work tree, in which git runs.
    pub work_tree: PathBuf,
    /// The repository, usually `.git` in the work tree.
    pub git_dir: PathBuf,
    /// Our index.
    pub index: PathBuf,
    /// Our directory for new objects, and the repository's own, which is only read. `None`: the repository is ours.
    pub objects: Option<(PathBuf, PathBuf)>,
    /// Names of filters that are configured there; see `Git::disarm`.
    pub(super) filters: Vec<String>,
}

impl View {
    /// A view of a repository whose objects are written too, because it is ours.
    pub fn new(work_tree: PathBuf, git_dir: PathBuf, index: PathBuf) -> Self {
        Self { work_tree, git_dir, index, objects: None, filters: Vec::new() }
    }
}

/// What git may use to reach one repository.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub repository: &'a Repository,
    pub credentials: &'a Credentials,
    pub authorities: &'a Authorities,
    /// Whether `file://` is allowed; for tests.
    pub allow_file: bool,
    /// Time limit of one git command.
    pub timeout: Duration,
    /// Looks up a variable of this process.
    pub process: &'a dyn Fn(&str) -> Option<OsString>,
}

/// The private files of git cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A private file cannot be written.
    #[error("the private files for git cannot be written: {0}; /tmp must be writable")]
    Private(#[from] io::Error),
    /// The certificates cannot be read.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
}

/// The directory that git enters.
#[derive(Clone, Copy)]
pub(super) enum Directory<'a> {
    /// Written only by this process: git gets the credentials.
    Own,
    /// Perhaps written by the agent, with its configuration: git gets no credentials and executes nothing from there.
    Untrusted {
        /// Path of the work tree.
        path: &'a Path,
        /// The only allowed protocol.
        protocol: &'a str,
        /// Names of filters that are configured there, such as `filter.lfs`.
        filters: &'a [String],
        /// Index and objects of our own.
        view: Option<&'a View>,
    },
}

/// A private directory with the files for git, deleted when dropped.
#[derive(Debug)]
pub(super) struct Environment {
    directory: TempDir,
    inherited: Vec<(&'static str, OsString)>,
    ssh_command: Option<String>,
    authorities: Option<PathBuf>,
    protocols: &'static str,
}

impl Environment {
    /// Writes the private files.
    pub(super) fn prepare(access: &Access<'_>) -> Result<Self, AccessError> {
        let directory = tempfile::Builder::new()
            .prefix("kubeopencode-git-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let write = |name: &str, content: &[u8]| write_private(directory.path(), name, content);
        let mut config = format!("{SAFE}{OWN}");
        if let (Transport::Http { scheme, authority }, Some((user, password))) =
            (&access.repository.transport, access.credentials.login())
        {
            let line = format!("{scheme}://{}:{}@{authority}\n", percent_encode(user), percent_encode(password));
            let store = write("credentials", line.as_bytes())?;
            let quoted = shell_quote(&store).replace('\\', "\\\\").replace('"', "\\\"");
            // The empty helper removes every helper that was configured before ours.
            let _ = write!(config, "[credential]\n\thelper =\n\thelper = \"store --file={quoted}\"\n");
        }
        write("gitconfig", config.as_bytes())?;
        write("untrusted.gitconfig", SAFE.as_bytes())?;
        let ssh_command = match access.repository.transport {
            Transport::Ssh { .. } => Some(ssh_command(directory.path(), access.credentials, access.timeout)?),
            Transport::Http { .. } | Transport::File => None,
        };
        let authorities = match access.authorities.custom {
            Some(_) => Some(write("authorities.pem", &access.authorities.pem()?)?),
            None => None,
        };
        let protocols = if access.allow_file { "https:http:ssh:file" } else { "https:http:ssh" };
        let inherited = INHERITED.into_iter().filter_map(|name| Some((name, (access.process)(name)?))).collect();
        Ok(Self { directory, inherited, ssh_command, authorities, protocols })
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// All variables of a git command.
    pub(super) fn variables(&self, enters: Directory<'_>) -> Vec<(OsString, OsString)> {
        let private = self.directory();
        let mut all: Vec<(OsString, OsString)> =
            self.inherited.iter().map(|(name, value)| (OsString::from(name), value.clone())).collect();
        let mut set = |name: &str, value: OsString| all.push((name.into(), value));
        // We read git's messages.
        set("LC_ALL", "C".into());
        set("GIT_TERMINAL_PROMPT", "0".into());
        set("GIT_CONFIG_NOSYSTEM", "1".into());
        match enters {
            Directory::Own => {
                // libcurl reads ~/.netrc.
                set("HOME", private.into());
                set("GIT_CONFIG_GLOBAL", private.join("gitconfig").into());
                set("GIT_ALLOW_PROTOCOL", self.protocols.into());
                if let Some(command) = &self.ssh_command {
                    set("GIT_SSH_COMMAND", command.into());
                }
                if let Some(authorities) = &self.authorities {
                    set("GIT_SSL_CAINFO", authorities.into());
                }
            }
            Directory::Untrusted { path, protocol, filters, view } => {
                // A `~` in the repository's configuration is useless.
                set("HOME", "/dev/null".into());
                set("GIT_CONFIG_GLOBAL", private.join("untrusted.gitconfig").into());
                set("GIT_ALLOW_PROTOCOL", protocol.into());
                // Missing objects are not fetched from an address in the repository's configuration.
                set("GIT_NO_LAZY_FETCH", "1".into());
                // Overrides `core.worktree`.
                set("GIT_DIR", view.map_or_else(|| path.join(".git"), |view| view.git_dir.clone()).into());
                set("GIT_WORK_TREE", path.into());
                let mut settings = disarming(filters);
                if let Some(View { index, objects, .. }) = view {
                    set("GIT_INDEX_FILE", index.into());
                    if let Some((own, other)) = objects {
                        set("GIT_OBJECT_DIRECTORY", own.into());
                        set("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(other));
                    }
                    settings.extend(VIEWING.map(|(name, value)| (name.to_owned(), value.to_owned())));
                }
                set("GIT_CONFIG_COUNT", settings.len().to_string().into());
                // Not as arguments: `-c` misreads a name that contains `=`.
                for (index, (name, value)) in settings.into_iter().enumerate() {
                    set(&format!("GIT_CONFIG_KEY_{index}"), name.into());
                    set(&format!("GIT_CONFIG_VALUE_{index}"), value.into());
                }
            }
        }
        all
    }
}

/// [`DISARMING`], and settings that turn these filters off.
fn disarming(filters: &[String]) -> Vec<(String, String)> {
    let off = [("required", "false"), ("smudge", ""), ("clean", ""), ("process", "")];
    let fixed = DISARMING.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let filters =
        filters.iter().flat_map(|filter| off.map(|(name, value)| (format!("{filter}.{name}"), value.to_owned())));
    fixed.into_iter().chain(filters).collect()
}

/// A path for a list of paths that colons separate.
fn quoted(path: &Path) -> OsString {
    let text = path.to_string_lossy();
    if !text.contains([':', '"']) {
        return path.into();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")).into()
}

/// The command by which git runs ssh: without the user's configuration and without questions. The host key must be a
/// known one; if none are known, it is accepted and kept for the life of the private directory.
fn ssh_command(directory: &Path, credentials: &Credentials, timeout: Duration) -> io::Result<String> {
    // An unreachable host is reported as such, before git's own timeout.
    let connect = (timeout.as_secs() / 3).clamp(1, 30);
    let mut command =
        format!("ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout={connect} -o ServerAliveInterval=30");
    if let Some(key) = &credentials.ssh_key {
        let path = write_private(directory, "ssh-key", lines(key).as_bytes())?;
        let _ = write!(command, " -o IdentitiesOnly=yes -i {}", shell_quote(&path));
    }
    let known = credentials.known_hosts.as_deref();
    let strict = if known.is_some() { "yes" } else { "accept-new" };
    let path = write_private(directory, "known-hosts", lines(known.unwrap_or_default()).as_bytes())?;
    let _ = write!(
        command,
        " -o StrictHostKeyChecking={strict} -o UserKnownHostsFile={} -o GlobalKnownHostsFile=/dev/null",
        shell_quote(&path)
    );
    Ok(command)
}

/// The text with Unix line ends. ssh refuses a key without a final line end, which many Secrets lack.
fn lines(text: &str) -> String {
    text.replace("\r\n", "\n").trim_end_matches('\n').to_owned() + "\n"
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
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn process(name: &str) -> Option<OsString> {
        match name {
            "PATH" => Some("/bin".into()),
            "HTTPS_PROXY" => Some("http://proxy:3128".into()),
            "GIT_PASSWORD" | "HOME" | "SSH_AUTH_SOCK" | "API_KEY" => Some("not-for-git".into()),
            _ => None,
        }
    }

    fn prepare(address: &str, credentials: &Credentials) -> Environment {
        let repository = Repository::parse(address, false).unwrap();
        let authorities = Authorities::default();
        let timeout = Duration::from_mins(1);
        let access = Access {
            repository: &repository,
            credentials,
            authorities: &authorities,
            allow_file: false,
            timeout,
            process: &process,
        };
        Environment::prepare(&access).unwrap()
    }

    fn password(username: Option<&str>, password: &str) -> Credentials {
        let username = username.map(str::to_owned);
        Credentials { username, password: Some(password.to_owned()), ..Credentials::default() }
    }

    fn read(environment: &Environment, name: &str) -> String {
        std::fs::read_to_string(environment.directory().join(name)).unwrap()
    }

    fn variable(all: &[(OsString, OsString)], name: &str) -> Option<String> {
        let found: Vec<_> = all.iter().filter(|(key, _)| key == name).collect();
        assert!(found.len() < 2, "{name} is set twice");
        found.first().map(|(_, value)| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_password_is_in_one_private_file_and_escaped() {
        let line = prepare("https://h/r", &password(Some("me\n"), "pw\n"));
        assert_eq!(read(&line, "credentials"), "https://me:pw@h\n");
        let environment = prepare("https://h:1/r", &password(None, "p@ss\nhttps://x:y@evil"));
        let expected = "https://x-access-token:p%40ss%0Ahttps%3A%2F%2Fx%3Ay%40evil@h:1\n";
        assert_eq!(read(&environment, "credentials"), expected);
        let mode = environment.directory().join("credentials").metadata().unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(environment.directory().metadata().unwrap().mode() & 0o777, 0o700);
        let variables = format!("{:?}", environment.variables(Directory::Own));
        assert!(!variables.contains("p@ss") && !variables.contains("p%40ss"), "{variables}");
    }

    #[test]
    fn host_keys_are_strict_when_known_and_noted_otherwise() {
        let (key, hosts) = (Some("KEY\r\nLINE".to_owned()), Some("h ssh-ed25519 AAAA".to_owned()));
        let known = prepare("git@h:r", &Credentials { ssh_key: key, known_hosts: hosts, ..Credentials::default() });
        let command = known.ssh_command.clone().unwrap();
        for option in ["StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "ConnectTimeout=20 ", "BatchMode=yes"] {
            assert!(command.contains(option), "no {option} in {command}");
        }
        assert!(!command.contains("LINE"), "{command}");
        assert_eq!(read(&known, "ssh-key"), "KEY\nLINE\n");
        assert_eq!(read(&known, "known-hosts"), "h ssh-ed25519 AAAA\n");
        let unknown = prepare("git@h:r", &Credentials::default()).ssh_command.unwrap();
        assert!(unknown.contains("StrictHostKeyChecking=accept-new"), "{unknown}");
    }

    #[test]
    fn only_listed_variables_of_this_process_are_inherited() {
        let environment = prepare("git@h:r", &Credentials::default());
        let path = Path::new("/w");
        for enters in [Directory::Own, Directory::Untrusted { path, protocol: "none", filters: &[], view: None }] {
            let all = environment.variables(enters);
            assert!(!format!("{all:?}").contains("not-for-git"), "{all:?}");
            assert_eq!(variable(&all, "PATH").as_deref(), Some("/bin"));
            assert_eq!(variable(&all, "HTTPS_PROXY").as_deref(), Some("http://proxy:3128"));
            assert_eq!(variable(&all, "GIT_CONFIG_NOSYSTEM").as_deref(), Some("1"));
            assert_eq!(variable(&all, "GIT_TERMINAL_PROMPT").as_deref(), Some("0"));
            let global = variable(&all, "GIT_CONFIG_GLOBAL").unwrap();
            assert!(Path::new(&global).starts_with(environment.directory()), "{global}");
        }
        let own = environment.variables(Directory::Own);
        assert_eq!(variable(&own, "GIT_ALLOW_PROTOCOL").as_deref(), Some("https:http:ssh"));
        assert!(read(&environment, "gitconfig").contains("hooksPath = /dev/null"));
    }

    #[test]
    fn a_directory_of_the_agent_gets_no_credentials_and_its_filters_are_off() {
        let environment = prepare("git@h:r", &Credentials { ssh_key: Some("K".into()), ..Credentials::default() });
        let filters = ["filter.a=b".to_owned()];
        let path = Path::new("/w");
        let all = environment.variables(Directory::Untrusted { path, protocol: "file", filters: &filters, view: None });
        for absent in ["GIT_SSH_COMMAND", "GIT_SSL_CAINFO"] {
            assert_eq!(variable(&all, absent), None, "{absent}");
        }
        assert_eq!(read(&environment, "untrusted.gitconfig"), SAFE);
        assert_eq!(variable(&all, "GIT_ALLOW_PROTOCOL").as_deref(), Some("file"));
        assert_eq!(variable(&all, "GIT_DIR").as_deref(), Some("/w/.git"));
        assert_eq!(variable(&all, "HOME").as_deref(), Some("/dev/null"));
        assert_eq!(variable(&all, "GIT_CONFIG_COUNT").as_deref(), Some("11"));
        assert_eq!(variable(&all, "GIT_CONFIG_KEY_0").as_deref(), Some("core.hooksPath"));
        assert_eq!(variable(&all, "GIT_CONFIG_KEY_10").as_deref(), Some("filter.a=b.process"));
        assert_eq!(variable(&all, "GIT_CONFIG_VALUE_10").as_deref(), Some(""));
    }

    #[test]
    fn a_view_writes_nothing_into_the_repository() {
        let environment = prepare("git@h:r", &Credentials::default());
        let path = Path::new("/w");
        let mut view = View::new(path.into(), "/w/.git".into(), "/p/index".into());
        view.objects = Some(("/p/objects".into(), "/w/.git/a:b/objects".into()));
        let enters = Directory::Untrusted { path, protocol: "none", filters: &[], view: Some(&view) };
        let all = environment.variables(enters);
        assert_eq!(variable(&all, "GIT_INDEX_FILE").as_deref(), Some("/p/index"));
        assert_eq!(variable(&all, "GIT_OBJECT_DIRECTORY").as_deref(), Some("/p/objects"));
        let other = variable(&all, "GIT_ALTERNATE_OBJECT_DIRECTORIES");
        assert_eq!(other.as_deref(), Some("\"/w/.git/a:b/objects\""));
        let settings = variable(&all, "GIT_CONFIG_COUNT").unwrap();
        assert_eq!(settings, (DISARMING.len() + VIEWING.len()).to_string());
    }
}
