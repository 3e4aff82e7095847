//! Repositories over ssh: git itself asks them, with the key of a Secret in private files.
//!
//! The key is never in arguments, in the environment, or in what is told; nobody is asked anything; and it takes a while
//! at most.

use std::{
    ffi::OsStr,
    fs::{OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use kubeopencode_core::assets::SshRepository;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

use crate::remote::{Error, MOST_BYTES};

/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of what git complains about, so much is read.
const MOST_COMPLAINT: u64 = 64 << 10;

/// What a Secret has for ssh.
#[derive(Clone)]
pub struct SshKey {
    /// The private key.
    pub private: String,
    /// Which keys hosts have. Without it the key of a host is accepted as it comes, as in Pods.
    pub known_hosts: Option<String>,
}

/// The refs of a repository, as `git ls-remote` prints them. `path` is where programs are.
pub async fn list(repository: &SshRepository, key: Option<&SshKey>, path: &OsStr) -> Result<String, Error> {
    careful(&repository.host).await?;
    let private = |error: io::Error| Error::Unsupported(format!("the key cannot be put into a private file: {error}"));
    let mut place = tempfile::Builder::new();
    place.prefix("kubeopencode-ssh-").permissions(Permissions::from_mode(0o700));
    let place = place.tempdir().map_err(private)?;
    let ssh = ssh_command(place.path(), key).map_err(private)?;
    let mut git = Command::new("git");
    git.args(["ls-remote", "--", &repository.address]).current_dir(place.path()).env_clear();
    git.env("PATH", path).env("HOME", place.path()).env("LC_ALL", "C").env("GIT_SSH_COMMAND", ssh);
    git.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ALLOW_PROTOCOL", "ssh");
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Error::Unsupported("the controller has no git; use an https repository".into()),
        _ => Error::Unsupported(format!("git cannot be run: {error}")),
    };
    let mut git = git.spawn().map_err(broken)?;
    let (stdout, stderr) = (git.stdout.take(), git.stderr.take());
    let answer = async {
        let all = tokio::try_join!(read(stdout, MOST_BYTES as u64 + 1), read(stderr, MOST_COMPLAINT))?;
        Ok::<_, io::Error>((all, git.wait().await?))
    };
    let host = repository.host.clone();
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    let Ok(answer) = answer else {
        return Err(Error::Unreachable { host, problem: "it takes too long".into() });
    };
    let ((listing, complaint), status) = answer.map_err(broken)?;
    if listing.len() > MOST_BYTES {
        return Err(Error::Missing(format!("{host} answered more than {MOST_BYTES} bytes")));
    }
    if status.success() {
        return Ok(String::from_utf8_lossy(&listing).into_owned());
    }
    Err(problem(&host, &String::from_utf8_lossy(&complaint)))
}

/// Whether a host may be asked. A name that nobody knows is left to ssh, which says so.
async fn careful(host: &str) -> Result<(), Error> {
    let Ok(addresses) = tokio::net::lookup_host((host, 22)).await else { return Ok(()) };
    for address in addresses {
        reach::check(address.ip(), crate::remote::LOOPBACK)
            .map_err(|refused| Error::Forbidden(format!("{host} {refused}")))?;
    }
    Ok(())
}

/// The command with which git reaches a host.
fn ssh_command(place: &Path, key: Option<&SshKey>) -> io::Result<String> {
    let known = key.and_then(|key| key.known_hosts.as_deref());
    let strict = if known.is_some() { "yes" } else { "accept-new" };
    let hosts = quoted(&write_private(place, "known-hosts", known.unwrap_or_default())?);
    // The settings of the user are not ours to use, and nobody is there to answer.
    let command = format!(
        "ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=10 -o GlobalKnownHostsFile=/dev/null \
         -o StrictHostKeyChecking={strict} -o UserKnownHostsFile={hosts}"
    );
    let Some(key) = key else { return Ok(command) };
    let file = quoted(&write_private(place, "key", &key.private)?);
    Ok(format!("{command} -o IdentitiesOnly=yes -i {file}"))
}

/// ssh refuses what others may read, and a key whose last line is not ended, which is how many Secrets are made.
fn write_private(place: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    let path = place.join(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    writeln!(file, "{}", text.replace("\r\n", "\n").trim_end_matches('\n'))?;
    Ok(path)
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

async fn read(from: Option<impl AsyncRead + Unpin>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(most).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// What git and ssh complained about, in our words: theirs may hold anything.
fn problem(host: &str, complaint: &str) -> Error {
    let has = |words: &[&str]| words.iter().any(|word| complaint.contains(word));
    let unreachable = |problem: &str| Error::Unreachable { host: host.to_owned(), problem: problem.to_owned() };
    if has(&["No user exists for uid"]) {
        Error::Unsupported("ssh needs the user of the controller in /etc/passwd; use an https repository".into())
    } else if has(&["ssh: not found", "cannot run ssh", "ssh: command not found"]) {
        Error::Unsupported("the controller has no ssh; use an https repository".into())
    } else if has(&["Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"]) {
        Error::Missing(format!("the key of {host} is not the one in ssh-known-hosts of secretRef"))
    } else if has(&["Permission denied", "invalid format", "error in libcrypto"]) {
        Error::Missing(format!("{host} does not accept the key: check ssh-privatekey of secretRef"))
    } else if has(&["Could not resolve hostname"]) {
        unreachable("nobody knows its name")
    } else if has(&["timed out", "Connection refused", "No route to host"]) {
        unreachable("it cannot be reached")
    } else if has(&["not found", "does not exist", "not appear to be a git repository"]) {
        Error::Missing(format!("{host} has no such repository: check the name"))
    } else {
        unreachable("git cannot list the repository")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nnobody-may-see-this\n-----END OPENSSH PRIVATE KEY-----";

    /// What stands for ssh: it notes what it was given, and then does `then`.
    fn programs(then: &str) -> (tempfile::TempDir, std::ffi::OsString) {
        let place = tempfile::tempdir().unwrap();
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" >{0}/given\nenv >>{0}/given\n\
             while [ \"$1\" != -i ]; do shift; done\nstat -c 'mode %a' \"$2\" >>{0}/given\ncp \"$2\" {0}/key\n\
             for last; do :; done\n{then}\n",
            place.path().display()
        );
        // By another process: a program that this one may still hold open, in a fork of another test, cannot be run.
        let (text, ssh) = (place.path().join("text"), place.path().join("ssh"));
        fs::write(&text, script).unwrap();
        let installed = std::process::Command::new("install").args(["-m", "755"]).args([&text, &ssh]).status().unwrap();
        assert!(installed.success());
        let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
        (place, path.into())
    }

    fn key() -> SshKey {
        SshKey { private: KEY.to_owned(), known_hosts: Some("127.0.0.1 ssh-ed25519 AAAA".to_owned()) }
    }

    #[tokio::test]
    async fn the_key_is_in_a_private_file_and_nowhere_else() {
        let commit = "a".repeat(40);
        // It answers as git on the other side would: one ref, the end of the list, and then it listens.
        let line = format!("{commit} HEAD\\000agent=x\\n");
        let length = commit.len() + " HEAD\0agent=x\n".len() + 4;
        let (place, path) = programs(&format!("printf '{length:04x}{line}0000'; cat >/dev/null"));
        let repository = SshRepository::parse("ssh://git@127.0.0.1/a.git").unwrap();
        let listing = list(&repository, Some(&key()), &path).await.map_err(|error| error.to_string());
        assert_eq!(listing, Ok(format!("{commit}\tHEAD\n")));
        let given = fs::read_to_string(place.path().join("given")).unwrap();
        for wanted in
            ["git@127.0.0.1", "BatchMode=yes", "StrictHostKeyChecking=yes", "mode 600", "GIT_TERMINAL_PROMPT=0"]
        {
            assert!(given.contains(wanted), "no {wanted} in {given}");
        }
        assert!(!given.contains("nobody-may-see-this"), "{given}");
        assert_eq!(fs::read_to_string(place.path().join("key")).unwrap(), format!("{KEY}\n"));
    }

    #[tokio::test]
    async fn a_refusal_is_told_without_its_words() {
        let (_place, path) = programs("echo 'git@h: Permission denied (publickey): secret-word' >&2; exit 255");
        let repository = SshRepository::parse("git@127.0.0.1:a.git").unwrap();
        let Err(error) = list(&repository, Some(&key()), &path).await else { panic!("it was not refused") };
        assert_eq!(error.to_string(), "127.0.0.1 does not accept the key: check ssh-privatekey of secretRef");
    }

    #[tokio::test]
    async fn what_may_not_be_read_is_not_asked_and_what_is_not_there_is_named() {
        let check = async |address: &str, path: &str, expected: &str| {
            let repository = SshRepository::parse(address).unwrap();
            let Err(error) = list(&repository, None, OsStr::new(path)).await else { panic!("{address} was listed") };
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("git@169.254.169.254:a", "/nowhere", "169.254.169.254 is a link-local or metadata address").await;
        check("git@127.0.0.1:a", "/nowhere", "the controller has no git; use an https repository").await;
    }
}
