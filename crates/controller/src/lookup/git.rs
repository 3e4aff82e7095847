//! Refs of a repository over ssh, listed by git itself.

use std::{ffi::OsString, io};

use egress::{Access, AccessError, Authorities, Cause, Credentials, Git, GitError, Policy, Repository, check_host};

use crate::lookup::{Error, LIMIT};

/// The refs of a repository, as `git ls-remote` prints them. `process` returns variables of this process.
pub(super) async fn list(
    repository: &Repository,
    host: &str,
    credentials: &Credentials,
    policy: &Policy,
    process: &(dyn Fn(&str) -> Option<OsString> + Sync),
) -> Result<String, Error> {
    check_host(host, policy).await.map_err(|refused| Error::Forbidden(format!("{host} {refused}")))?;
    let authorities = Authorities::default();
    let git = Git::prepare(&Access {
        repository,
        credentials,
        authorities: &authorities,
        allow_file: false,
        timeout: LIMIT,
        process: &|name| process(name),
    });
    let git = git.map_err(|error: AccessError| Error::Unsupported(error.to_string()))?;
    let listed = git.run(git.directory(), &["ls-remote", "--", &repository.url]).await;
    listed.map_err(|error| problem(host, &error))
}

/// An error in our own words: the output of git and ssh may contain anything.
fn problem(host: &str, error: &GitError) -> Error {
    let unreachable = |problem: &str| Error::Unreachable { host: host.to_owned(), problem: problem.to_owned() };
    let unsupported = |problem: &str| Error::Unsupported(problem.to_owned());
    match error {
        GitError::Start(error) if error.kind() == io::ErrorKind::NotFound => {
            unsupported("the controller has no git; use an https repository")
        }
        GitError::Start(error) => Error::Unsupported(format!("git cannot be run: {error}")),
        GitError::TimedOut { .. } => unreachable("it takes too long"),
        GitError::TooLong { .. } => Error::Missing(format!("{host} lists too many refs")),
        GitError::HostKey { .. } => {
            Error::Missing(format!("the key of {host} is not the one in ssh-known-hosts of secretRef"))
        }
        GitError::Credentials { .. } => {
            Error::Missing(format!("{host} does not accept the key: check ssh-privatekey of secretRef"))
        }
        GitError::Failed { cause, .. } => match cause {
            Cause::NoUser => {
                unsupported("ssh needs the user of the controller in /etc/passwd; use an https repository")
            }
            Cause::NoSsh => unsupported("the controller has no ssh; use an https repository"),
            Cause::UnknownHost => unreachable("its name does not resolve"),
            Cause::Unreachable => unreachable("it cannot be reached"),
            Cause::NoRepository => Error::Missing(format!("{host} has no such repository: check the name")),
            Cause::HostKey | Cause::Credentials | Cause::Other => unreachable("git cannot list the repository"),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs};

    use egress::{Loopback, Transport};

    use super::*;

    const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nnobody-may-see-this\n-----END OPENSSH PRIVATE KEY-----";

    /// A fake ssh that records its arguments and environment, and then runs `then`.
    fn programs(then: &str) -> (tempfile::TempDir, OsString) {
        let place = tempfile::tempdir().unwrap();
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" >{0}/given\nenv >>{0}/given\n\
             while [ \"$1\" != -i ]; do shift; done\nstat -c 'mode %a' \"$2\" >>{0}/given\ncp \"$2\" {0}/key\n\
             for last; do :; done\n{then}\n",
            place.path().display()
        );
        // Written by another process: a program that a fork of another test still holds open cannot be executed.
        let (text, ssh) = (place.path().join("text"), place.path().join("ssh"));
        fs::write(&text, script).unwrap();
        let installed = std::process::Command::new("install").args(["-m", "755"]).args([&text, &ssh]).status().unwrap();
        assert!(installed.success());
        let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
        (place, path.into())
    }

    fn key() -> Credentials {
        let known_hosts = Some("127.0.0.1 ssh-ed25519 AAAA".to_owned());
        Credentials { ssh_key: Some(KEY.to_owned()), known_hosts, ..Credentials::default() }
    }

    async fn listing(address: &str, credentials: &Credentials, path: &OsStr) -> Result<String, String> {
        let repository = Repository::parse(address, false).unwrap();
        let Transport::Ssh { host } = &repository.transport else { panic!("{address} is not for ssh") };
        let process = |name: &str| (name == "PATH").then(|| path.to_owned());
        list(&repository, host, credentials, &Loopback::Allowed.into(), &process)
            .await
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn the_key_is_in_a_private_file_and_nowhere_else() {
        let commit = "a".repeat(40);
        // The answer of git on the other side: one ref, the end of the list, and then it listens.
        let line = format!("{commit} HEAD\\000agent=x\\n");
        let length = commit.len() + " HEAD\0agent=x\n".len() + 4;
        let (place, path) = programs(&format!("printf '{length:04x}{line}0000'; cat >/dev/null"));
        assert_eq!(listing("ssh://git@127.0.0.1/a.git", &key(), &path).await, Ok(format!("{commit}\tHEAD\n")));
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
    async fn a_refusal_is_reported_without_the_words_of_the_host() {
        let (_place, path) = programs("echo 'git@h: Permission denied (publickey): secret-word' >&2; exit 255");
        let error = listing("git@127.0.0.1:a.git", &key(), &path).await.unwrap_err();
        assert_eq!(error, "127.0.0.1 does not accept the key: check ssh-privatekey of secretRef");
    }

    #[tokio::test]
    async fn a_forbidden_address_is_not_asked_and_a_missing_program_is_named() {
        let check = async |address: &str, path: &str, expected: &str| {
            let error = listing(address, &Credentials::default(), OsStr::new(path)).await.unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("git@169.254.169.254:a", "/nowhere", "169.254.169.254 is a link-local or metadata address").await;
        check("git@127.0.0.1:a", "/nowhere", "the controller has no git; use an https repository").await;
    }
}
