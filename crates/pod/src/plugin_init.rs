//! plugin-init: installs OpenCode plugins from npm before the agent starts. No script of a package is run.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::env::{self, Lookup, SettingError};
use crate::group::Group;
use crate::redact::Redactor;

/// What plugin-init is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// npm package specs, the first of each package.
    pub packages: Vec<String>,
    /// Where they go.
    pub directory: PathBuf,
    /// The npm program.
    pub npm: PathBuf,
    /// Limit of the installation.
    pub timeout: Duration,
    /// Extra certificates.
    pub authorities: Option<PathBuf>,
}

/// Why the plugins are not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A spec would be an option.
    #[error("`{0}` is not an npm package; use names such as `my-plugin@1.2.3` or `@scope/plugin`")]
    Package(String),
    /// There is no npm.
    #[error("npm cannot be started: {0}; plugins need an image with node and npm")]
    Start(std::io::Error),
    /// It took too long.
    #[error("npm did not install {packages} within {} s; check the registry, or raise {}", limit.as_secs(), env::PLUGIN_TIMEOUT)]
    TimedOut {
        /// The packages.
        packages: String,
        /// The limit.
        limit: Duration,
    },
    /// npm failed.
    #[error("npm could not install {packages}: {detail}")]
    Npm {
        /// The packages.
        packages: String,
        /// What npm said.
        detail: String,
    },
    /// The file system refused.
    #[error("{path:?}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Settings {
    /// Reads the settings.
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
            if names.insert(package_name(&spec).to_owned()) {
                packages.push(spec);
            } else {
                tracing::warn!(%spec, "the same package was listed before; the first one is installed");
            }
        }
        Ok(Self {
            packages,
            directory: env::path(env, env::PLUGIN_DIR, "/plugins"),
            npm: env::path(env, env::PLUGIN_NPM, "npm"),
            timeout: env::duration(env, env::PLUGIN_TIMEOUT, Duration::from_mins(10))?,
            authorities: env::text(env, env::CUSTOM_CA_CERT_PATH).map(PathBuf::from),
        })
    }
}

/// The package of a spec: `@scope/name@1` is `@scope/name`.
fn package_name(spec: &str) -> &str {
    let version = spec.char_indices().skip(1).find(|(_, char)| *char == '@');
    version.map_or(spec, |(at, _)| &spec[..at])
}

/// Installs the packages. Returns how many.
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
        .env("CI", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(authorities) = &settings.authorities {
        command.env("NODE_EXTRA_CA_CERTS", authorities);
    }
    let child = command.spawn().map_err(Error::Start)?;
    // npm is a script whose node goes on without it.
    let group = Group::of(&child);
    let output = match tokio::time::timeout(settings.timeout, child.wait_with_output()).await {
        Ok(output) => output.map_err(Error::Start)?,
        Err(_) => return Err(Error::TimedOut { packages, limit: settings.timeout }),
    };
    group.ended();
    if !output.status.success() {
        let redactor = Redactor::from_process([]);
        let text = String::from_utf8_lossy(&output.stderr);
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
