//! plugin-init: installs OpenCode plugins from npm before the agent starts. Scripts of packages are not run.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{contract::paths, registry::package};
use egress::RunError;
use tokio::process::Command;

use crate::env::{self, Lookup, SettingError};
use crate::redact;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// npm package specs, one per package.
    pub packages: Vec<String>,
    pub directory: PathBuf,
    /// Path of npm.
    pub npm: PathBuf,
    pub timeout: Duration,
    /// PEM file that npm trusts in addition; `None` if there is no `caBundle`.
    pub authorities: Option<PathBuf>,
}

/// Why the installation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A spec is empty, or npm would read it as an option.
    #[error("`{0}` is not an npm package; use names such as `my-plugin@1.2.3` or `@scope/plugin`")]
    Package(String),
    /// npm is missing or cannot be executed.
    #[error("npm cannot be started: {0}; plugins need an image with node and npm")]
    Start(std::io::Error),
    /// The time limit was exceeded.
    #[error("npm did not install {packages} within {} s; check the registry, or raise {}", limit.as_secs(), env::PLUGIN_TIMEOUT)]
    TimedOut { packages: String, limit: Duration },
    /// npm failed.
    #[error("npm could not install {packages}: {detail}")]
    Npm {
        packages: String,
        /// npm's first messages.
        detail: String,
    },
    /// A file cannot be read or written.
    #[error("{path:?}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, Error> {
        let expected = r#"a JSON list such as ["my-plugin@1.2.3"]"#;
        env::required(env, env::PLUGIN_PACKAGES, expected)?;
        let specs: Vec<String> = env::json(env, env::PLUGIN_PACKAGES, expected)?;
        let mut names = BTreeSet::new();
        let mut packages = Vec::new();
        for spec in specs {
            let spec = spec.trim().to_owned();
            if spec.is_empty() || spec.starts_with('-') || spec.chars().any(char::is_whitespace) {
                return Err(Error::Package(spec));
            }
            if names.insert(package(&spec).0.to_owned()) {
                packages.push(spec);
            } else {
                tracing::warn!(%spec, "the package is listed twice; the first spec is installed");
            }
        }
        Ok(Self {
            packages,
            directory: env::path(env, env::PLUGIN_DIR, paths::PLUGINS),
            npm: env::path(env, env::PLUGIN_NPM, "npm"),
            timeout: env::duration(env, env::PLUGIN_TIMEOUT, Duration::from_mins(10))?,
            authorities: env::text(env, env::CUSTOM_CA_CERT_PATH).map(PathBuf::from),
        })
    }
}

/// Installs the packages. Returns their number.
pub async fn run(settings: &Settings) -> Result<usize, Error> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    };
    std::fs::create_dir_all(&settings.directory).map_err(io(&settings.directory))?;
    if settings.packages.is_empty() {
        return Ok(0);
    }
    let packages = settings.packages.join(", ");
    // HOME may be read-only: npm's cache and logs go to a directory of our own.
    let cache = tempfile::tempdir().map_err(io(Path::new("/tmp")))?;
    let mut command = Command::new(&settings.npm);
    command
        .args(["install", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--no-update-notifier"])
        .args(["--loglevel=error", "--prefix"])
        .arg(&settings.directory)
        .arg("--")
        .args(&settings.packages)
        .current_dir(&settings.directory)
        .env("npm_config_cache", cache.path())
        .env("npm_config_yes", "true")
        .env("CI", "true");
    if let Some(authorities) = &settings.authorities {
        command.env("NODE_EXTRA_CA_CERTS", authorities);
    }
    let finished = match egress::run(&mut command, settings.timeout).await {
        Ok(finished) => finished,
        Err(RunError::Start(error)) => return Err(Error::Start(error)),
        Err(RunError::TimedOut) => return Err(Error::TimedOut { packages, limit: settings.timeout }),
        Err(error @ RunError::TooLong) => return Err(Error::Npm { packages, detail: error.to_string() }),
    };
    if !finished.status.success() {
        let redactor = redact::from_process([]);
        let text = String::from_utf8_lossy(&finished.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("A complete log of this run")).collect();
        let detail: String = redactor.clean(&lines[..lines.len().min(6)].join("; ")).chars().take(1000).collect();
        return Err(Error::Npm { packages, detail });
    }
    make_readable(&settings.directory).map_err(io(&settings.directory))?;
    tracing::info!(%packages, "plugins are installed");
    Ok(settings.packages.len())
}

/// As `chmod -R a+rX`: the agent may run as another user.
fn make_readable(path: &Path) -> std::io::Result<()> {
    let metadata = path.symlink_metadata()?;
    if metadata.is_symlink() {
        return Ok(());
    }
    let mode = metadata.permissions().mode();
    let wanted = mode | if metadata.is_dir() || mode & 0o111 != 0 { 0o555 } else { 0o444 };
    if wanted != mode {
        std::fs::set_permissions(path, Permissions::from_mode(wanted))?;
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path)? {
            make_readable(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    fn packages(json: &str) -> Result<Vec<String>, Error> {
        Settings::from_env(&of(&[(env::PLUGIN_PACKAGES, json)])).map(|settings| settings.packages)
    }

    #[test]
    fn the_first_spec_of_a_package_wins() {
        assert_eq!(packages(r#"["a@1", "@s/b@2", "a@2", "@s/b", "@s/c"]"#).unwrap(), ["a@1", "@s/b@2", "@s/c"]);
    }

    #[test]
    fn options_are_no_packages() {
        for bad in [r#"["--registry=http://evil"]"#, r#"[""]"#, r#"["a b"]"#, "{}", ""] {
            assert!(packages(bad).is_err(), "{bad}");
        }
    }
}
