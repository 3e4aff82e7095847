//! Finds OpenCode on this machine: on the `PATH`, in the tools directory, or in the cache that `make tools` fills.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug, Default)]
pub struct SearchPaths {
    /// The value of `PATH`.
    pub path: OsString,
    /// Our tools directory, in the state directory.
    pub tools: PathBuf,
    /// The cache: one directory per version.
    pub cache: Option<PathBuf>,
}

impl SearchPaths {
    /// The search paths of this process, with the tools directory of `state_dir`.
    pub fn of_process(state_dir: &Path) -> Self {
        let cache = std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
        Self {
            path: std::env::var_os("PATH").unwrap_or_default(),
            tools: state_dir.join("tools"),
            cache: cache.map(|cache| cache.join("kubeopencode/opencode")),
        }
    }

    /// The first OpenCode that does not depend on its location.
    pub fn find(&self) -> Option<PathBuf> {
        let on_path = std::env::split_paths(&self.path).map(|dir| dir.join("opencode"));
        let mut found = on_path.chain([self.tools.join("opencode")]).filter_map(|path| standalone(&path));
        found.next().or_else(|| self.newest_cached())
    }

    fn newest_cached(&self) -> Option<PathBuf> {
        let versions = fs::read_dir(self.cache.as_ref()?).ok()?;
        let mut found: Vec<_> = versions
            .flatten()
            .filter_map(|entry| {
                let program = standalone(&entry.path().join("opencode"))?;
                let name = entry.file_name().into_string().ok()?;
                let numbers: Vec<u64> = name.split('.').map_while(|part| part.parse().ok()).collect();
                Some((numbers, program))
            })
            .collect();
        found.sort();
        found.pop().map(|(_, program)| program)
    }
}

/// The executable behind `path`. npm installs a script that looks for the executable beside itself, which fails inside
/// a container.
fn standalone(path: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(path).ok()?;
    let meta = fs::metadata(&real).ok()?;
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
        return None;
    }
    if !is_script(&real) {
        return Some(real);
    }
    let package = real.parent()?.parent()?;
    let platform = format!("opencode-linux-{}", if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" });
    let inside = package.join("node_modules").join(&platform).join("bin/opencode");
    let beside = package.parent()?.join(&platform).join("bin/opencode");
    [inside, beside].into_iter().find(|program| program.is_file() && !is_script(program))
}

fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_path_comes_first_then_the_tools_then_the_newest_of_the_cache() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let at = |name: &str| root.join(name).join("opencode");
        for name in ["path", "tools", "cache/1.9.0", "cache/1.10.2", "cache/1.2.99"] {
            program(&at(name), "\x7fELF");
        }
        let mut places =
            SearchPaths { path: root.join("path").into(), tools: root.join("tools"), cache: Some(root.join("cache")) };
        assert_eq!(places.find(), Some(at("path")));
        places.path = root.join("nowhere").into();
        assert_eq!(places.find(), Some(at("tools")));
        places.tools = root.join("nowhere");
        assert_eq!(places.find(), Some(at("cache/1.10.2")));
        places.cache = None;
        assert_eq!(places.find(), None);
    }

    #[test]
    fn the_script_that_npm_installs_stands_for_the_program_beside_it() {
        let temp = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(temp.path()).unwrap();
        let script = root.join("lib/node_modules/opencode-ai/bin/opencode");
        program(&script, "#!/usr/bin/env node");
        fs::create_dir(root.join("bin")).unwrap();
        std::os::unix::fs::symlink(&script, root.join("bin/opencode")).unwrap();
        assert_eq!(standalone(&root.join("bin/opencode")), None);
        let platform = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
        let real = root.join(format!("lib/node_modules/opencode-linux-{platform}/bin/opencode"));
        program(&real, "\x7fELF");
        assert_eq!(standalone(&root.join("bin/opencode")), Some(real));
    }
}
