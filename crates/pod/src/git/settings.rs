//! Settings of git-init and git-sync.

use std::path::PathBuf;
use std::time::Duration;

use domain::contract::paths;
use egress::{Authorities, BadRepository, Credentials, Repository, check_ref};

use crate::env::{self, Lookup, SettingError};

#[derive(Clone)]
pub struct Settings {
    pub repository: Repository,
    /// Branch, tag, commit or `HEAD`.
    pub reference: String,
    /// Number of commits of history; `None` is all.
    pub depth: Option<u32>,
    /// Directory that contains the checkout.
    pub root: PathBuf,
    /// Name of the checkout below `root`.
    pub link: String,
    /// Directory into which the checkout is merged; `None` if it is not merged.
    pub workspace: Option<PathBuf>,
    /// Directory of the repository that is merged; empty = all of it.
    pub subpath: PathBuf,
    /// Files and directories that the repository must contain.
    pub parts: Vec<String>,
    /// Whether a retained workspace is moved to the newest commit.
    pub follow: bool,
    /// Whether submodules are checked out.
    pub submodules: bool,
    /// Number of attempts.
    pub attempts: u32,
    pub retry_delay: Duration,
    /// Time limit of one git command.
    pub timeout: Duration,
    /// Time between two polls of git-sync.
    pub interval: Duration,
    /// Whether the Pod starts without the repository if it is unavailable.
    pub optional: bool,
    /// Whether `file://` is allowed, for tests.
    pub allow_file: bool,
    /// The key and the known hosts may be paths of files.
    pub credentials: Credentials,
    pub authorities: Authorities,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Settings").field("repository", &self.repository).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum GitSettingError {
    /// A variable is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The URL of the repository is invalid.
    #[error(transparent)]
    Repository(#[from] BadRepository),
    /// The ref is invalid.
    #[error("{0}; set the context's git.ref to one, or leave it out for the default branch")]
    Reference(String),
    /// The link or the subpath is invalid.
    #[error("{name} is {value:?}, which is not a plain path below the repository; remove `..` and leading `/` or `-`")]
    Path { name: &'static str, value: String },
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, GitSettingError> {
        let allow_file = env::flag(env, env::GIT_ALLOW_FILE)?;
        let address = env::required(env, env::GIT_REPO, "the URL of a git repository")?;
        let repository = Repository::parse(&address, allow_file)?;
        let reference = env::text(env, env::GIT_REF).unwrap_or_else(|| "HEAD".to_owned());
        check_ref(&reference).map_err(GitSettingError::Reference)?;
        let link = env::text(env, env::GIT_LINK).unwrap_or_else(|| "repo".to_owned());
        if link.contains('/') || link.starts_with(['.', '-']) {
            return Err(GitSettingError::Path { name: env::GIT_LINK, value: link });
        }
        let subpath = env::text(env, env::GIT_REPO_SUBPATH).unwrap_or_default();
        if crate::place::plain_names(subpath.as_ref()).is_err() || subpath.split('/').any(|part| part == ".git") {
            return Err(GitSettingError::Path { name: env::GIT_REPO_SUBPATH, value: subpath });
        }
        let depth = env::number(env, env::GIT_DEPTH, 1_u32)?;
        let credentials = or_of_address(credentials(env), &repository);
        Ok(Self {
            repository,
            reference,
            depth: (depth > 0).then_some(depth),
            root: env::path(env, env::GIT_ROOT, paths::GIT),
            link,
            workspace: env::text(env, env::GIT_WORKSPACE_DIR).map(PathBuf::from),
            subpath: crate::place::plain_names(subpath.as_ref()).unwrap_or_default().iter().collect(),
            parts: env::json(env, env::GIT_REPO_PARTS, r#"a JSON list such as ["docs"]"#)?,
            follow: env::flag(env, env::GIT_FOLLOW)?,
            submodules: env::flag(env, env::GIT_RECURSE_SUBMODULES)?,
            attempts: env::number(env, env::GIT_CLONE_RETRIES, 3_u32)?.clamp(1, 100),
            retry_delay: env::duration(env, env::GIT_CLONE_RETRY_DELAY, Duration::from_secs(5))?,
            timeout: env::duration(env, env::GIT_TIMEOUT, Duration::from_mins(30))?,
            interval: env::duration(env, env::GIT_SYNC_INTERVAL, Duration::from_mins(5))?,
            optional: env::flag(env, env::GIT_OPTIONAL)?,
            allow_file,
            credentials,
            authorities: crate::authorities::from_env(env),
        })
    }

    /// Path of the checkout.
    pub fn checkout(&self) -> PathBuf {
        self.root.join(&self.link)
    }
}

/// The credentials in the variables.
pub fn credentials(env: Lookup<'_>) -> Credentials {
    Credentials {
        username: env::text(env, env::GIT_USERNAME),
        password: env::text(env, env::GIT_PASSWORD),
        ssh_key: env::text(env, env::GIT_SSH_KEY),
        known_hosts: env::text(env, env::GIT_SSH_KNOWN_HOSTS),
    }
}

/// The credentials, or those in the address of the repository if there is no password.
pub fn or_of_address(mut credentials: Credentials, repository: &Repository) -> Credentials {
    if let (Some((user, password)), None) = (&repository.userinfo, &credentials.password) {
        // In `https://TOKEN@host` the user is the token.
        let (user, password) = if password.is_empty() { (None, user) } else { (Some(user.clone()), password) };
        credentials.username = credentials.username.or(user);
        credentials.password = Some(password.clone());
    }
    credentials
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    fn settings(extra: &[(&str, &str)]) -> Result<Settings, GitSettingError> {
        let mut pairs = vec![(env::GIT_REPO, "https://example.com/r.git")];
        pairs.splice(0..0, extra.iter().copied());
        Settings::from_env(&of(&pairs))
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let settings = settings(&[]).unwrap();
        assert_eq!(settings.reference, "HEAD");
        assert_eq!(settings.depth, Some(1));
        assert_eq!(settings.checkout(), PathBuf::from("/git/repo"));
        assert_eq!((settings.attempts, settings.retry_delay.as_secs()), (3, 5));
        assert_eq!(settings.interval.as_secs(), 300);
    }

    #[test]
    fn depth_zero_is_the_full_history() {
        assert_eq!(settings(&[(env::GIT_DEPTH, "0")]).unwrap().depth, None);
    }

    #[test]
    fn hostile_values_are_refused() {
        for (name, value) in [
            (env::GIT_REPO, "--upload-pack=x"),
            (env::GIT_REF, "--force"),
            (env::GIT_LINK, "../x"),
            (env::GIT_LINK, ".gitconfig"),
            (env::GIT_REPO_SUBPATH, "../x"),
            (env::GIT_REPO_SUBPATH, "/etc"),
            (env::GIT_REPO_SUBPATH, ".git"),
            (env::GIT_DEPTH, "-1"),
        ] {
            assert!(settings(&[(name, value)]).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn credentials_in_the_url_are_used_unless_a_secret_is_given() {
        let token = settings(&[(env::GIT_REPO, "https://tok@h/r")]).unwrap().credentials;
        assert_eq!((token.username, token.password), (None, Some("tok".to_owned())));
        let both = settings(&[(env::GIT_REPO, "https://a:b@h/r"), (env::GIT_PASSWORD, "secret")]).unwrap().credentials;
        assert_eq!(both.password.as_deref(), Some("secret"));
        assert!(!format!("{both:?}").contains("secret"));
    }
}
