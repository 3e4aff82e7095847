//! image-build and image-push: build an image with buildah, and push it.
//!
//! They run in two containers. A Dockerfile may run anything, so the container that builds has no credential, and hands the
//! image over as an archive; the container that pushes runs nothing of the repository. buildah works without privileges
//! where it can: with chroot isolation and plain directories for layers, in the user namespace of its own user.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use domain::contract::{
    image::{BuildOrder, BuildReport},
    paths,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

use crate::{
    env::{self, Lookup, SettingError},
    outcome::write_termination_message,
};

/// Name of the archive that is handed over.
const ARCHIVE: &str = "image.tar";
/// Bytes of output that are kept for a message.
const TAIL: usize = 4096;
/// Lines of output in a message.
const LINES: usize = 8;
/// Beginnings of lines that say how far a copy is.
const STEPS: [&str; 4] = ["Getting image source", "Copying ", "Writing manifest", "Storing signatures"];
/// Where buildah looks for the rules about signatures.
const POLICY: &str = "/etc/containers/policy.json";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub order: BuildOrder,
    /// The checkout of the repository.
    pub source: PathBuf,
    /// Directory through which the image is handed over.
    pub image: PathBuf,
    /// Directory for images and layers.
    pub storage: PathBuf,
    /// The login of the registry; the file need not exist.
    pub login: PathBuf,
    /// Path of buildah.
    pub buildah: PathBuf,
    /// Directory with a certificate that is trusted in addition; `None` if there is no `caBundle`.
    pub authorities: Option<PathBuf>,
    /// Where the digest goes.
    pub outcome: PathBuf,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The repository has no such file or directory.
    #[error("the repository has no {path:?}: correct executorImageBuild.{field}")]
    NoPath { field: &'static str, path: String },
    /// A link leads out of the repository.
    #[error("{path:?} leads out of the repository: correct executorImageBuild.{field}")]
    Outside { field: &'static str, path: String },
    /// buildah is missing or cannot be executed.
    #[error("buildah cannot be started: {0}; spec.imageBuild.builderImage must contain it")]
    Start(io::Error),
    /// buildah failed.
    #[error("buildah could not {what}: {tail}")]
    Failed {
        what: &'static str,
        /// The end of its output.
        tail: String,
    },
    /// The image was not handed over, or the registry named no digest.
    #[error("{0}")]
    Broken(&'static str),
    /// A file cannot be read or written.
    #[error("{path:?}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let expected = r#"JSON such as {"image": "registry/name:tag", "dockerfile": "Dockerfile"}"#;
        env::required(env, env::IMAGE_BUILD, expected)?;
        let authorities = env::text(env, env::CUSTOM_CA_CERT_PATH).map(PathBuf::from);
        Ok(Self {
            order: env::json(env, env::IMAGE_BUILD, expected)?,
            source: env::path(env, env::IMAGE_SOURCE_DIR, &format!("{}/{}", paths::GIT, paths::GIT_CHECKOUT)),
            image: env::path(env, env::IMAGE_DIR, paths::IMAGE),
            storage: env::path(env, env::BUILD_STORAGE_DIR, paths::BUILD_STORAGE),
            login: env::path(env, env::REGISTRY_LOGIN_FILE, paths::REGISTRY_LOGIN),
            buildah: env::path(env, env::BUILDAH, "buildah"),
            authorities: authorities.and_then(|file| file.parent().map(Path::to_owned)),
            outcome: crate::outcome::file(env),
        })
    }

    fn archive(&self) -> PathBuf {
        self.image.join(ARCHIVE)
    }

    /// A path of the repository, without links that lead out of it.
    fn inside(&self, field: &'static str, path: &str) -> Result<PathBuf, Error> {
        let root = self.source.canonicalize().map_err(|source| failed(&self.source, source))?;
        let missing = |_| Error::NoPath { field, path: path.to_owned() };
        let found = root.join(path).canonicalize().map_err(missing)?;
        if !found.starts_with(&root) {
            return Err(Error::Outside { field, path: path.to_owned() });
        }
        Ok(found)
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}

/// Builds the image, and hands it over as an archive.
pub async fn build(settings: &Settings) -> Result<(), Error> {
    let order = &settings.order;
    let context = settings.inside("context", &order.context)?;
    let dockerfile = settings.inside("dockerfile", &order.dockerfile)?;
    let buildah = Buildah::prepare(settings)?;
    let mut words: Vec<OsString> = ["--isolation", "chroot", "--tag", &order.image, "--file"].map(Into::into).into();
    words.push(dockerfile.into());
    for (name, value) in &order.args {
        words.extend(["--build-arg".into(), format!("{name}={value}").into()]);
    }
    words.extend(["--".into(), context.into()]);
    buildah.run("build the image", "bud", &words).await?;
    let target = format!("oci-archive:{}", settings.archive().display());
    buildah.run("write the image", "push", &["--".into(), order.image.clone().into(), target.into()]).await?;
    Ok(())
}

/// Pushes the image, and leaves its digest as the termination message.
pub async fn push(settings: &Settings) -> Result<BuildReport, Error> {
    let archive = settings.archive();
    // Not a link: the container that wrote it may have run anything.
    if !archive.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(Error::Broken("the container that builds left no image"));
    }
    let buildah = Buildah::prepare(settings)?;
    let from = format!("oci-archive:{}", archive.display());
    let pulled = buildah.run("read the image", "pull", &["--".into(), from.into()]).await?;
    let id = pulled.lines().map(str::trim).rfind(|line| is_id(line));
    let id = id.ok_or(Error::Broken("buildah named no image after it had read one"))?;
    let file = settings.storage.join("digest");
    let to = format!("docker://{}", settings.order.image);
    let words = ["--digestfile".into(), file.clone().into_os_string(), "--".into(), id.into(), to.into()];
    buildah.run("push the image", "push", &words).await?;
    let digest = std::fs::read_to_string(&file).map_err(|source| failed(&file, source))?;
    let text = serde_json::to_string(&BuildReport { digest: digest.trim().to_owned() }).unwrap_or_default();
    let report = BuildReport::read(&text).ok_or(Error::Broken("buildah reported no digest of the image"))?;
    write_termination_message(&settings.outcome, &text).map_err(|source| failed(&settings.outcome, source))?;
    Ok(report)
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// buildah, with directories and configuration of its own.
struct Buildah<'a> {
    settings: &'a Settings,
    home: PathBuf,
    /// Rules about signatures, where the image of the container has none.
    policy: Option<PathBuf>,
}

impl<'a> Buildah<'a> {
    fn prepare(settings: &'a Settings) -> Result<Self, Error> {
        let home = settings.storage.join("home");
        let registries = home.join(".config/containers/registries.conf.d");
        for directory in [&registries, &settings.storage.join("tmp"), &settings.storage.join("run")] {
            std::fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        }
        let write = |path: PathBuf, text: &str| {
            std::fs::write(&path, text).map_err(|source| failed(&path, source))?;
            Ok::<_, Error>(path)
        };
        if settings.order.insecure {
            // For this registry alone: base images come from others.
            let host = settings.order.image.split('/').next().unwrap_or_default();
            let text = format!("[[registry]]\nlocation = {host:?}\ninsecure = true\n");
            write(registries.join("kubeopencode.conf"), &text)?;
        }
        let policy = if Path::new(POLICY).exists() {
            None
        } else {
            let text = r#"{"default": [{"type": "insecureAcceptAnything"}]}"#;
            Some(write(settings.storage.join("policy.json"), text)?)
        };
        Ok(Self { settings, home, policy })
    }

    /// Runs a subcommand. Its output becomes that of this process. Returns what it wrote to standard output, the end of it
    /// if that is long.
    async fn run(&self, what: &'static str, subcommand: &str, words: &[OsString]) -> Result<String, Error> {
        let Settings { storage, buildah, login, authorities, .. } = self.settings;
        let mut command = Command::new(buildah);
        command
            .args([OsStr::new("--root"), storage.join("images").as_ref()])
            .args([OsStr::new("--runroot"), storage.join("state").as_ref()])
            .args(["--storage-driver", "vfs", subcommand]);
        if let Some(policy) = &self.policy {
            command.args([OsStr::new("--signature-policy"), policy.as_ref()]);
        }
        if login.exists() {
            command.args([OsStr::new("--authfile"), login.as_ref()]);
        }
        if let Some(directory) = authorities {
            // Besides the file with the certificates of the system.
            let mut directories = OsString::from("/etc/ssl/certs:");
            directories.push(directory);
            command.env("SSL_CERT_DIR", directories);
        }
        command
            .args(words)
            .env("HOME", &self.home)
            .env("XDG_RUNTIME_DIR", storage.join("run"))
            .env("TMPDIR", storage.join("tmp"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let (status, out, err) = follow(command).await.map_err(Error::Start)?;
        if status.success() {
            return Ok(out);
        }
        // Steps go to standard output, errors to standard error.
        let tail = last_lines(&format!("{out}\n{err}"));
        let tail = if tail.is_empty() { status.to_string() } else { tail };
        Err(Error::Failed { what, tail })
    }
}

/// Runs a command, copies its output, and returns the end of both streams.
async fn follow(mut command: Command) -> io::Result<(ExitStatus, String, String)> {
    let mut child = command.spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err, status) = tokio::join!(copy(out, io::stdout()), copy(err, io::stderr()), child.wait());
    Ok((status?, out, err))
}

/// Copies a stream. Returns its end.
async fn copy(from: Option<impl AsyncRead + Unpin>, mut to: impl io::Write) -> String {
    let mut tail: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 8 << 10];
    if let Some(mut from) = from {
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            // A log that cannot be written does not end the build.
            let _ = to.write_all(&buffer[..read]).and_then(|()| to.flush());
            tail.extend_from_slice(&buffer[..read]);
            let surplus = tail.len().saturating_sub(TAIL);
            tail.drain(..surplus);
        }
    }
    String::from_utf8_lossy(&tail).into_owned()
}

/// The last lines of an output.
fn last_lines(text: &str) -> String {
    let says_why = |line: &&str| !line.is_empty() && !STEPS.iter().any(|step| line.starts_with(step));
    let lines: Vec<&str> = text.lines().map(str::trim).filter(says_why).collect();
    lines[lines.len().saturating_sub(LINES)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    fn settings(root: &Path) -> Settings {
        let order = BuildOrder { image: "r/n:t".into(), dockerfile: "Dockerfile".into(), ..BuildOrder::default() };
        let text = serde_json::to_string(&order).unwrap();
        let settings = Settings::from_env(&of(&[(env::IMAGE_BUILD, &text)])).unwrap();
        assert_eq!((settings.order.clone(), settings.source.as_path()), (order, Path::new("/git/repo")));
        let below = |name: &str| root.join(name);
        Settings { source: below("source"), image: below("image"), storage: below("storage"), ..settings }
    }

    #[test]
    fn a_path_stays_in_the_repository() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path());
        std::fs::create_dir_all(settings.source.join("build")).unwrap();
        std::fs::write(settings.source.join("Dockerfile"), "FROM scratch\n").unwrap();
        std::os::unix::fs::symlink("/etc", settings.source.join("out")).unwrap();
        std::os::unix::fs::symlink("build", settings.source.join("in")).unwrap();
        let check = |path: &str, expected: &str| {
            let found = settings.inside("context", path).map(|path| path.file_name().map(OsStr::to_owned));
            let found = match found {
                Ok(name) => name.unwrap_or_default().to_string_lossy().into_owned(),
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{path}: {found}");
        };
        check("", "source");
        check("build", "build");
        check("in", "build");
        check("out", "leads out of the repository");
        check("..", "leads out of the repository");
        check("none", "the repository has no \"none\"");
    }

    #[test]
    fn the_end_of_the_output_is_quoted() {
        let lines: Vec<String> = (0..20).map(|number| format!("line {number}\n")).collect();
        let last = last_lines(&lines.join("\n"));
        assert!(last.starts_with("line 12; ") && last.ends_with("; line 19"), "{last}");
        assert_eq!(
            last_lines("Getting image source signatures\nCopying blob sha256:ab\n\nError: denied\n"),
            "Error: denied"
        );
        assert_eq!(last_lines(" \n\n"), "");
    }

    #[tokio::test]
    async fn a_link_in_place_of_the_image_is_not_pushed() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path());
        std::fs::create_dir_all(&settings.image).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", settings.archive()).unwrap();
        assert!(matches!(push(&settings).await, Err(Error::Broken(_))));
    }
}
