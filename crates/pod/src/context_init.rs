//! context-init: writes the files and directories of the contexts before the agent starts.
//!
//! Files come from a mounted ConfigMap, from one key or from several that are joined (a ConfigMap holds 1 MiB, a
//! context may be longer); directories are copied as a whole. A failed copy stops the Pod: an agent without its prompt
//! is worse than no agent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain::contract::mappings::{DirMapping, FileMapping};
use domain::contract::paths;

use crate::env::{self, Lookup, SettingError};
use crate::place::{FileMode, PlaceError, Root, plain_names};
use egress::{Authorities, AuthoritiesError};

/// ConfigMaps are flat or a few levels deep; a deeper tree contains a link to its own parent.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub workspace: PathBuf,
    /// Mount of the ConfigMap.
    pub configmap: PathBuf,
    pub files: Vec<FileMapping>,
    pub directories: Vec<DirMapping>,
    /// Directories outside of the workspace that may be written; empty = the parents of the targets.
    pub roots: Vec<PathBuf>,
    /// Path to which our own program is copied.
    pub copy_self_to: Option<PathBuf>,
    /// Path at which every container sees our program, so that a link is enough.
    pub shared_program: Option<PathBuf>,
    /// File that receives all certificates.
    pub combined_ca_bundle: Option<PathBuf>,
    pub authorities: Authorities,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            workspace: env::path(env, env::WORKSPACE_DIR, paths::WORKSPACE),
            configmap: env::path(env, env::CONFIGMAP_PATH, paths::CONTEXT_FILES),
            files: env::json(env, env::FILE_MAPPINGS, r#"[{"key": "k", "targetPath": "/p", "fileMode": 420}]"#)?,
            directories: env::json(env, env::DIR_MAPPINGS, r#"[{"sourcePath": "/s", "targetPath": "/p"}]"#)?,
            roots: env::text(env, env::CONTEXT_ROOTS)
                .map(|roots| roots.split(':').filter(|root| !root.is_empty()).map(PathBuf::from).collect())
                .unwrap_or_default(),
            copy_self_to: env::text(env, env::COPY_SELF_TO).map(PathBuf::from),
            shared_program: env::text(env, env::SHARED_PROGRAM).map(PathBuf::from),
            combined_ca_bundle: env::text(env, env::COMBINED_CA_BUNDLE).map(PathBuf::from),
            authorities: crate::authorities::from_env(env),
        })
    }
}

/// Why the contexts could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A mapping has no key, or a key that is not a file name.
    #[error(
        "the mapping for {target:?} has no usable ConfigMap key ({key:?}); name one with `key` or several with `keys`"
    )]
    Key { target: PathBuf, key: String },
    /// Two mappings write the same file.
    #[error("{first} and {second} both write {target:?}; give one of them another mountPath")]
    Collision { first: String, second: String, target: PathBuf },
    /// The target is outside of the allowed directories.
    #[error("{target:?} (from {origin}) is outside of the directories that contexts may write: {allowed}")]
    Outside {
        target: PathBuf,
        /// Key or directory.
        origin: String,
        allowed: String,
    },
    /// The mode has bits that are not permissions.
    #[error("file mode {mode:o} for {target:?} is not between 0000 and 0777")]
    Mode { target: PathBuf, mode: u32 },
    /// The certificates cannot be read.
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    /// A source cannot be read.
    #[error("{origin} cannot be read for {target:?}: {source}; check that the ConfigMap exists and holds it")]
    Read {
        /// Key or directory.
        origin: String,
        target: PathBuf,
        source: io::Error,
    },
    /// A target cannot be written.
    #[error("{origin} cannot be copied to {target:?}: {source}")]
    Write {
        /// Key or directory.
        origin: String,
        target: PathBuf,
        source: PlaceError,
    },
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub files: usize,
    pub bytes: u64,
}

/// Copies all files and directories, or returns the first error.
pub fn run(settings: &Settings) -> Result<Copied, Error> {
    equip(settings)?;
    let roots = Roots::open(settings)?;
    let mut taken: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut copied = Copied::default();
    for mapping in &settings.files {
        copy_file(settings, &roots, mapping, &mut taken, &mut copied)?;
    }
    for mapping in &settings.directories {
        let origin = format!("directory {}", mapping.source_path.display());
        if mapping.optional && !mapping.source_path.exists() {
            tracing::info!(source = ?mapping.source_path, "optional directory is not there");
            continue;
        }
        let mode = file_mode(mapping.file_mode, &mapping.target_path)?;
        let copy = Copy { roots: &roots, origin, workspace: &settings.workspace, mode };
        copy.directory(&mapping.source_path, &mapping.target_path, 0, &mut taken, &mut copied)?;
    }
    tracing::info!(files = copied.files, bytes = copied.bytes, "contexts are in place");
    Ok(copied)
}

/// Copies the platform's files for the agent's container: this program, and the certificates that its programs trust.
fn equip(settings: &Settings) -> Result<(), Error> {
    if let Some(target) = &settings.copy_self_to {
        let origin = "this program".to_owned();
        if let Some(shared) = &settings.shared_program {
            // A link: copying the program would take longer than everything else here.
            place_alone(target, origin, |root, name| root.symlink(name, shared))?;
        } else {
            let mut program = File::open("/proc/self/exe").map_err(|source| Error::Read {
                origin: origin.clone(),
                target: target.clone(),
                source,
            })?;
            write_alone(target, &mut program, 0o755, origin)?;
        }
    }
    if let Some(target) = &settings.combined_ca_bundle {
        write_alone(target, &mut settings.authorities.pem()?.as_slice(), 0o644, "the CA certificates".to_owned())?;
    }
    Ok(())
}

fn write_alone(target: &Path, content: &mut dyn Read, mode: u32, origin: String) -> Result<(), Error> {
    place_alone(target, origin, |root, name| root.write(name, content, FileMode::Exactly(mode)).map(drop))
}

fn place_alone(
    target: &Path,
    origin: String,
    place: impl FnOnce(&Root, &Path) -> Result<(), PlaceError>,
) -> Result<(), Error> {
    let failed = |source| Error::Write { origin, target: target.to_owned(), source };
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(failed(PlaceError::Outside(target.to_owned())));
    };
    Root::open(parent).and_then(|root| place(&root, Path::new(name))).map_err(failed)
}

fn file_mode(mode: Option<u32>, target: &Path) -> Result<FileMode, Error> {
    match mode {
        Some(mode) if mode > 0o777 => Err(Error::Mode { target: target.to_owned(), mode }),
        Some(mode) => Ok(FileMode::Exactly(mode)),
        None => Ok(FileMode::KeepOr(0o644)),
    }
}

fn copy_file(
    settings: &Settings,
    roots: &Roots,
    mapping: &FileMapping,
    taken: &mut BTreeMap<PathBuf, String>,
    copied: &mut Copied,
) -> Result<(), Error> {
    let keys: Vec<&String> = mapping.key.iter().chain(&mapping.keys).collect();
    let target = settings.workspace.join(&mapping.target_path);
    let bad = keys.iter().find(|key| key.contains('/') || key.starts_with("..") || key.is_empty() || **key == ".");
    if keys.is_empty() || bad.is_some() {
        let key = bad.map(|key| (**key).clone()).unwrap_or_default();
        return Err(Error::Key { target, key });
    }
    let names: Vec<&str> = keys.iter().map(|key| key.as_str()).collect();
    let origin = format!("ConfigMap key {}", names.join(" + "));
    let mode = file_mode(mapping.file_mode, &target)?;
    let mut content: Box<dyn Read> = Box::new(io::empty());
    for key in &keys {
        match File::open(settings.configmap.join(key)) {
            Ok(part) => content = Box::new(content.chain(part)),
            Err(error) if mapping.optional && error.kind() == io::ErrorKind::NotFound => {
                tracing::info!(%origin, "optional key is not there");
                return Ok(());
            }
            Err(source) => return Err(Error::Read { origin, target, source }),
        }
    }
    let copy = Copy { roots, origin, workspace: &settings.workspace, mode };
    copy.file(&mut content, &mapping.target_path, taken, copied)
}

struct Roots(Vec<Root>);

impl Roots {
    fn open(settings: &Settings) -> Result<Self, Error> {
        let mut paths = vec![settings.workspace.clone()];
        if settings.roots.is_empty() {
            // The controller mounts one volume over each parent directory outside of the workspace.
            let files = settings.files.iter().filter_map(|file| file.target_path.parent());
            let directories = settings.directories.iter().map(|directory| directory.target_path.as_path());
            let outside = files.chain(directories).filter(|path| path.is_absolute());
            let plain = outside.filter(|path| plain_names(path.strip_prefix("/").unwrap_or(path)).is_ok());
            paths.extend(plain.filter(|path| !path.starts_with(&settings.workspace)).map(Path::to_owned));
        } else {
            paths.extend(settings.roots.iter().cloned());
        }
        // Longest first: a target belongs to the innermost root.
        paths.sort_by(|a, b| b.components().count().cmp(&a.components().count()).then_with(|| a.cmp(b)));
        paths.dedup();
        let roots = paths.iter().map(|path| {
            Root::open(path).map_err(|source| Error::Write {
                origin: "the directory for contexts".to_owned(),
                target: path.clone(),
                source,
            })
        });
        Ok(Self(roots.collect::<Result<_, _>>()?))
    }

    fn of<'a, 'b>(&'a self, target: &'b Path) -> Option<(&'a Root, &'b Path)> {
        self.0.iter().find_map(|root| Some((root, target.strip_prefix(root.path()).ok()?)))
    }
}

struct Copy<'a> {
    roots: &'a Roots,
    origin: String,
    workspace: &'a Path,
    mode: FileMode,
}

impl Copy<'_> {
    fn file(
        &self,
        content: &mut dyn Read,
        target: &Path,
        taken: &mut BTreeMap<PathBuf, String>,
        copied: &mut Copied,
    ) -> Result<(), Error> {
        let target = self.workspace.join(target);
        let Some((root, relative)) = self.roots.of(&target) else {
            let allowed: Vec<String> = self.roots.0.iter().map(|root| root.path().display().to_string()).collect();
            return Err(Error::Outside { target, origin: self.origin.clone(), allowed: allowed.join(", ") });
        };
        let failed = |source| Error::Write { origin: self.origin.clone(), target: target.clone(), source };
        let normal: PathBuf = root.path().join(plain_names(relative).map_err(failed)?.iter().collect::<PathBuf>());
        if let Some(first) = taken.insert(normal, self.origin.clone()) {
            return Err(Error::Collision { first, second: self.origin.clone(), target });
        }
        copied.bytes += root.write(relative, content, self.mode).map_err(failed)?;
        copied.files += 1;
        Ok(())
    }

    fn directory(
        &self,
        source: &Path,
        target: &Path,
        depth: usize,
        taken: &mut BTreeMap<PathBuf, String>,
        copied: &mut Copied,
    ) -> Result<(), Error> {
        let unreadable =
            |source: io::Error| Error::Read { origin: self.origin.clone(), target: target.to_owned(), source };
        if depth > MAX_DEPTH {
            return Err(unreadable(io::Error::other("the directory is nested too deeply")));
        }
        let entries = std::fs::read_dir(source).map_err(unreadable)?;
        let mut names = entries
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(unreadable)?;
        names.sort();
        // `..data` and `..2026_…` belong to the kubelet's update mechanism; the plain names point into them.
        for name in names.into_iter().filter(|name| !name.as_encoded_bytes().starts_with(b"..")) {
            let (from, to) = (source.join(&name), target.join(&name));
            let metadata = std::fs::metadata(&from).map_err(unreadable)?;
            if metadata.is_dir() {
                self.directory(&from, &to, depth + 1, taken, copied)?;
            } else {
                let mut content = File::open(&from).map_err(unreadable)?;
                self.file(&mut content, &to, taken, copied)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
