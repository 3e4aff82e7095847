//! Where the binaries come from: `KUBEBUILDER_ASSETS`, else the cache, else the Go module proxy into the cache.
//!
//! The modules in `testenv/go` pin every version; `go build -mod=readonly` refuses to resolve anything else.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool;

/// The Kubernetes version that is built; also the name of the cache directory.
pub const VERSION: &str = "v1.34.4";

/// A binary could not be found or built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `go` or a package tool is missing or failed.
    #[error(transparent)]
    Tool(#[from] tool::Error),
    /// The packages of a node cannot be downloaded.
    #[error("cannot download the Debian packages of a node; if their lists are missing or old, `apt-get update` helps")]
    Packages(#[source] tool::Error),
    /// There is no place for a cache.
    #[error("neither XDG_CACHE_HOME nor HOME is set, so there is no place to keep Kubernetes binaries")]
    NoHome,
    /// The cache could not be read or written.
    #[error("cannot use the cache at {}", path.display())]
    Cache {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A program of Kubernetes that the harness can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store of the API server.
    Etcd,
    /// The API server.
    Apiserver,
    /// The controllers that Kubernetes itself brings.
    ControllerManager,
    /// Gives Pods a node.
    Scheduler,
    /// The command line.
    Kubectl,
    /// Runs Pods.
    Kubelet,
    /// Makes Services reachable on a node.
    Proxy,
    /// Resolves the names of Services.
    Coredns,
    /// An S3 server.
    Versitygw,
}

impl Program {
    /// Programs of a control plane with all its controllers.
    pub const CONTROL_PLANE: [Self; 5] =
        [Self::Etcd, Self::Apiserver, Self::ControllerManager, Self::Scheduler, Self::Kubectl];
    /// Additional programs of a node.
    pub const NODE: [Self; 3] = [Self::Kubelet, Self::Proxy, Self::Coredns];

    /// The file name of the binary.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            Self::Coredns => "coredns",
            Self::Versitygw => "versitygw",
        }
    }

    /// The binary, if it is there already.
    pub fn find(self) -> Result<Option<PathBuf>, Error> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let places = assets.into_iter().chain([cache()?.join("bin")]);
        Ok(places.map(|dir| dir.join(self.name())).find(|path| path.is_file()))
    }

    /// The binary, built into the cache first if it is nowhere. Blocks, for minutes if it builds.
    pub fn obtain(self) -> Result<PathBuf, Error> {
        if let Some(path) = self.find()? {
            return Ok(path);
        }
        let lock = lock(&cache()?.join("build.lock"), "another process builds Kubernetes; waiting for it")?;
        match self.find()? {
            Some(path) => Ok(path),
            None => self.build(lock),
        }
    }

    fn build(self, lock: File) -> Result<PathBuf, Error> {
        let name = self.name();
        // Cold, with downloads, on two cores; dependencies are shared, so the first one of a module pays for the others.
        let (module, package, time) = match self {
            Self::Etcd => ("etcd", ".".to_owned(), "half a minute"),
            Self::Coredns => ("coredns", ".".to_owned(), "2 minutes"),
            Self::Versitygw => ("versitygw", "github.com/versity/versitygw/cmd/versitygw".to_owned(), "3 minutes"),
            Self::Apiserver => ("kubernetes", format!("k8s.io/kubernetes/cmd/{name}"), "5 minutes"),
            _ => ("kubernetes", format!("k8s.io/kubernetes/cmd/{name}"), "half a minute"),
        };
        progress(&format!("building {name} for Kubernetes {VERSION}, once, about {time}"));
        let path = cache()?.join("bin").join(name);
        let unfinished = path.with_extension("unfinished");
        make_dir(path.parent().unwrap_or(&path))?;
        let mut go = Command::new("go");
        go.args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", &linker_flags(module), "-o"]);
        go.arg(&unfinished).arg(package);
        go.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("go").join(module)).env("CGO_ENABLED", "0");
        // The compiler inherits the lock: if this process is killed, no second build starts beside the first.
        tool::run(go.stdin(lock))?;
        std::fs::rename(&unfinished, &path).map_err(unusable(&path))?;
        Ok(path)
    }
}

/// The directory for everything of this version that is made once.
pub fn cache() -> Result<PathBuf, Error> {
    let home = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = home("XDG_CACHE_HOME").or_else(|| Some(home("HOME")?.join(".cache"))).ok_or(Error::NoHome)?;
    Ok(base.join("kubeopencode/testenv").join(VERSION))
}

/// Waits for the lock file `path`, saying so once if someone else has it. It is free again when the file and all its
/// duplicates are closed.
pub(crate) fn lock(path: &Path, message: &str) -> Result<File, Error> {
    make_dir(path.parent().unwrap_or(path))?;
    let file = File::create(path).map_err(unusable(path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => progress(message),
        Err(TryLockError::Error(source)) => return Err(unusable(path)(source)),
    }
    file.lock().map_err(unusable(path))?;
    Ok(file)
}

/// Reports a long step on the terminal, bypassing the output capture of the test runner.
pub(crate) fn progress(message: &str) {
    let _ = writeln!(io::stderr(), "testenv: {message}");
}

pub(crate) fn make_dir(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(unusable(path))
}

pub(crate) fn unusable(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Cache { path, source }
}

/// Kubernetes takes its version from the linker; without it `kubectl version` prints v0.0.0-master.
fn linker_flags(module: &str) -> String {
    if module != "kubernetes" {
        return "-s -w".to_owned();
    }
    let mut numbers = VERSION.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let settings = [("gitVersion", VERSION), ("gitMajor", major), ("gitMinor", minor), ("gitTreeState", "clean")];
    let set = |(name, value)| format!(" -X k8s.io/component-base/version.{name}={value}");
    format!("-s -w{}", settings.map(set).concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linker_is_told_the_version_of_kubernetes_only() {
        assert_eq!(linker_flags("etcd"), "-s -w");
        let flags = linker_flags("kubernetes");
        assert!(flags.contains("version.gitVersion=v1.34.4") && flags.contains("version.gitMinor=34"), "{flags}");
    }

    #[test]
    fn the_pinned_module_is_the_version_that_names_the_cache() {
        let module = include_str!("../go/kubernetes/go.mod");
        assert!(module.contains(&format!("k8s.io/kubernetes {VERSION}")));
    }
}
