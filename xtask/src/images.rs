//! The container images, without Docker: directories become docker archives.
//!
//! | image | contents |
//! |---|---|
//! | `kubeopencode` | our program at `/kubeopencode`, git, ssh and certificates: the controller and the helpers of Pods |
//! | `kubeopencode-agent-opencode` | OpenCode; its entrypoint copies it to `$TOOLS_DIR` |
//! | `kubeopencode-agent-devbox` | the environment of agents: a shell, git, ripgrep |
//! | `kubeopencode-agent-attach` | our program under the name `opencode`, and nothing else |
//!
//! The images that users build with Docker are in `deploy/images`; these are for tests, demos and machines without a
//! registry. They do not contain npm, so `plugin-init` needs the image of the Dockerfile. Downloads are cached.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use anyhow::{Context as _, ensure};
use testenv::image::{self, Image};

const REGISTRY: &str = "quay.io/kubeopencode";
/// The version of OpenCode that all tests use.
const OPENCODE: &str = include_str!("../../deploy/opencode-version").trim_ascii();
/// Debian packages of helpers and agents.
const PACKAGES: [&str; 6] = ["git", "ripgrep", "ca-certificates", "bash", "busybox-static", "openssh-client"];
/// Dependencies of the packages that only an installed system needs.
const LEFT_OUT: [&str; 13] = [
    "adduser",
    "base-files",
    "cdebconf",
    "coreutils",
    "debconf",
    "debianutils",
    "dpkg",
    "git-man",
    "liberror-perl",
    "openssl",
    "passwd",
    "perl",
    "tar",
];
/// Applets of busybox that get no link.
const NOT_FROM_BUSYBOX: [&str; 2] = ["busybox", "bash"];
const PATH: &str = "PATH=/usr/local/bin:/usr/bin:/bin";

/// Writes the archives into `out`.
pub fn write(root: &Path, out: &Path, tag: &str, release: bool) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let program = static_program(root, release)?;
    let base = base()?;
    let opencode = opencode()?;
    let images = Images { out, tag };

    images.write("kubeopencode", &["/kubeopencode"], "1000", &[&program, &base], |dir| {
        copy_tree(&base, dir)?;
        copy(&program, &dir.join("kubeopencode"))
    })?;
    images.write("kubeopencode-agent-devbox", &["/bin/bash"], "1000", &[&base], |dir| {
        copy_tree(&base, dir)?;
        // Everything in an archive belongs to root.
        open_directory(&dir.join("workspace"), 0o777)
    })?;
    let install = r#"cp /opencode "$TOOLS_DIR/.opencode" && mv "$TOOLS_DIR/.opencode" "$TOOLS_DIR/opencode""#;
    images.write("kubeopencode-agent-opencode", &["/bin/sh", "-c", install], "1000", &[&opencode], |dir| {
        fs::create_dir_all(dir.join("bin"))?;
        copy(&base.join("bin/busybox"), &dir.join("bin/busybox"))?;
        for name in ["sh", "cp", "mv"] {
            symlink("busybox", dir.join("bin").join(name))?;
        }
        copy(&opencode, &dir.join("opencode"))
    })?;
    images.write("kubeopencode-agent-attach", &["/usr/local/bin/opencode"], "1000", &[&program], |dir| {
        fs::create_dir_all(dir.join("usr/local/bin"))?;
        copy(&program, &dir.join("usr/local/bin/opencode"))
    })
}

/// Directory and tag of the archives.
struct Images<'a> {
    out: &'a Path,
    tag: &'a str,
}

impl Images<'_> {
    /// Writes one archive, unless it is newer than everything that it is made from.
    fn write(
        &self,
        name: &str,
        entrypoint: &[&str],
        user: &str,
        made_from: &[&Path],
        fill: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let archive = self.out.join(format!("{name}_{}.tar", self.tag));
        let changed = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let newest = made_from.iter().filter_map(|path| changed(path)).max().unwrap_or_else(SystemTime::now);
        let reference = format!("{REGISTRY}/{name}:{}", self.tag);
        if changed(&archive).is_none_or(|written| written <= newest) {
            let dir = tempfile::tempdir_in(self.out)?;
            fill(dir.path()).with_context(|| format!("cannot put {name} together"))?;
            let unfinished = archive.with_extension("unfinished");
            let image = Image { name: &reference, entrypoint, environment: &[PATH], user };
            image::archive(&image, dir.path(), &unfinished)?;
            fs::rename(&unfinished, &archive)?;
        }
        eprintln!("{:>5} MB  {reference}  {}", fs::metadata(&archive)?.len() / 1_000_000, archive.display());
        Ok(())
    }
}

/// Our program, linked statically: it runs in images without libraries, and in those of users.
fn static_program(root: &Path, release: bool) -> anyhow::Result<PathBuf> {
    // target/debug/xtask -> target
    let chore = std::env::current_exe()?;
    let target = chore.parent().and_then(Path::parent).context("this program has no directory")?;
    let mut build = testenv::cargo();
    build.args(["rustc", "--quiet", "--package", "xtask", "--bin", "kubeopencode-static"]);
    build.args(release.then_some("--release"));
    run(build.args(["--", "-C", "target-feature=+crt-static"]).current_dir(root))?;
    let program = target.join(if release { "release" } else { "debug" }).join("kubeopencode-static");
    let kept = target.join("static/kubeopencode");
    fs::create_dir_all(target.join("static"))?;
    let small = kept.with_extension("new");
    run(Command::new("strip").arg("-o").arg(&small).arg(program))?;
    // An unchanged layer is not packed again.
    if fs::read(&kept).ok() == Some(fs::read(&small)?) {
        fs::remove_file(&small)?;
    } else {
        fs::rename(&small, &kept)?;
    }
    Ok(kept)
}

/// Unpacks the packages, once.
fn base() -> anyhow::Result<PathBuf> {
    let base = cache()?.join("debian");
    if base.is_dir() {
        return Ok(base);
    }
    eprintln!("downloading git, ripgrep and what they need, once, about 25 MB");
    let work = tempfile::tempdir_in(cache()?)?;
    let debs = work.path().join("debs");
    let root = work.path().join("root");
    fs::create_dir_all(&debs)?;
    run(Command::new("apt-get").arg("download").args(closure()?).current_dir(&debs))?;
    for deb in fs::read_dir(&debs)? {
        run(Command::new("dpkg-deb").arg("--extract").arg(deb?.path()).arg(&root))?;
    }
    for dir in ["usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/bash-completion", "usr/share/lintian"]
    {
        fs::remove_dir_all(root.join(dir)).or_else(ignore_missing)?;
    }
    settle(&root)?;
    fs::rename(&root, &base)?;
    Ok(base)
}

/// Does the work of the packages' install scripts.
fn settle(root: &Path) -> anyhow::Result<()> {
    let mut names: Vec<PathBuf> = files(&root.join("usr/share/ca-certificates"))?;
    names.sort();
    ensure!(!names.is_empty(), "the package ca-certificates holds none");
    let mut bundle = Vec::new();
    for name in names {
        bundle.extend(fs::read(name)?);
        bundle.push(b'\n');
    }
    fs::create_dir_all(root.join("etc/ssl/certs"))?;
    fs::write(root.join("etc/ssl/certs/ca-certificates.crt"), bundle)?;
    let busybox = root.join("bin/busybox");
    let list = Command::new(&busybox).arg("--list").output().context("busybox cannot be run")?;
    for name in String::from_utf8(list.stdout)?.lines().filter(|name| !NOT_FROM_BUSYBOX.contains(name)) {
        let taken = ["bin", "usr/bin"].iter().any(|dir| root.join(dir).join(name).symlink_metadata().is_ok());
        if !taken {
            symlink("busybox", root.join("bin").join(name))?;
        }
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nagent:x:1000:1000::/tmp:/bin/bash\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\nagent:x:1000:\n")?;
    fs::write(root.join("etc/nsswitch.conf"), "hosts: files dns\n")?;
    open_directory(&root.join("tmp"), 0o1777)
}

fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

fn open_directory(path: &Path, mode: u32) -> anyhow::Result<()> {
    fs::create_dir_all(path)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// The packages and everything that they depend on, except for those left out.
fn closure() -> anyhow::Result<BTreeSet<String>> {
    let mut all: BTreeSet<String> = PACKAGES.map(str::to_owned).into();
    let mut next: Vec<String> = all.iter().cloned().collect();
    while !next.is_empty() {
        let only = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
            .map(|kind| format!("--no-{kind}"));
        let output = Command::new("apt-cache").arg("depends").args(only).args(&next).output();
        let output = output.context("apt-cache cannot be run: these images are made from Debian packages")?;
        next = dependencies(&String::from_utf8(output.stdout)?)
            .into_iter()
            .filter(|name| !LEFT_OUT.contains(&name.as_str()) && all.insert(name.clone()))
            .collect();
    }
    Ok(all)
}

/// Parses the output of `apt-cache depends`. Takes the first of alternatives.
fn dependencies(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut chosen = false;
    for line in text.lines() {
        let (or, line) = match line.trim().strip_prefix('|') {
            Some(rest) => (true, rest),
            None => (false, line.trim()),
        };
        let Some(name) = line.strip_prefix("Depends: ").or_else(|| line.strip_prefix("PreDepends: ")) else { continue };
        if !chosen && !name.starts_with('<') {
            names.push(name.to_owned());
        }
        chosen = or;
    }
    names
}

/// The executable of OpenCode, as `scripts/opencode` installs it.
fn opencode() -> anyhow::Result<PathBuf> {
    let output =
        Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/opencode")).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "OpenCode {OPENCODE} cannot be installed");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// The directory of cached downloads.
fn cache() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let dir = cache.context("HOME is not set, so there is no cache")?.join("kubeopencode/images");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o755))?)
}

fn copy_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    run(Command::new("cp").arg("-a").arg(from.join(".")).arg(to))
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{} cannot be run", command.get_program().display()))?;
    ensure!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_alternatives_the_first_is_taken() {
        let text = "git\n  Depends: libc6\n |Depends: a\n |Depends: b\n  Depends: c\n  PreDepends: d\n  Depends: <virtual>\n    x\n";
        assert_eq!(dependencies(text), ["libc6", "a", "d"]);
    }
}
