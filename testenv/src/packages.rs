//! Debian packages for the node: unpacked into the cache, not installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::assets::{Error, cache, lock, make_dir, progress, unusable};
use crate::tool;

/// The container runtime, the bridge network, a static shell for images, and iptables with its libraries.
const PACKAGES: [&str; 10] = [
    "containerd",
    "runc",
    "containernetworking-plugins",
    "busybox-static",
    "iptables",
    "libxtables12",
    "libip4tc2",
    "libip6tc2",
    "libnftnl11",
    "libmnl0",
];

/// The directory in which the packages are unpacked, downloaded first if it is not there. Blocks.
pub(crate) fn obtain() -> Result<PathBuf, Error> {
    let root = cache()?.join("runtime");
    if !root.is_dir() {
        let _lock = lock(&cache()?.join("packages.lock"), "another process downloads packages; waiting for it")?;
        if !root.is_dir() {
            download(&root)?;
        }
    }
    Ok(root)
}

fn download(root: &Path) -> Result<(), Error> {
    progress("downloading containerd, runc and iptables, once, about 40 MB");
    let debs = tempfile::tempdir().map_err(unusable(root))?;
    tool::run(Command::new("apt-get").arg("download").args(PACKAGES).current_dir(debs.path()))
        .map_err(Error::Packages)?;
    let unfinished = root.with_extension("unfinished");
    make_dir(&unfinished)?;
    for deb in debs.path().read_dir().map_err(unusable(root))? {
        let deb = deb.map_err(unusable(root))?.path();
        tool::run(Command::new("dpkg-deb").arg("--extract").args([&deb, &unfinished]))?;
    }
    std::fs::rename(&unfinished, root).map_err(unusable(root))
}
