//! Where people keep credentials on their machine: hidden from containers, which may otherwise read every file that
//! their user may read.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Below a home directory.
const IN_HOME: &[&str] = &[
    ".aws",
    ".azure",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".claude.json",
    ".codex",
    ".config/chromium",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/helm",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".docker",
    ".gem/credentials",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".kubeopencode",
    ".local/share/keyrings",
    ".local/share/opencode/auth.json",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".ssh",
    ".terraform.d",
    ".vault-token",
];
/// Variables with the path of a file or directory, or with several.
const VARIABLES: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "DOCKER_CONFIG",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "NETRC",
];
/// User ids of people; those below belong to the system.
const PEOPLE: std::ops::Range<u32> = 1000..65534;

/// The credentials of the people on this machine.
pub(crate) fn of_machine() -> BTreeSet<PathBuf> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    paths(&users, std::env::home_dir().as_deref(), &|name| std::env::var_os(name).map(PathBuf::from))
}

/// `home` is the home directory of this process. `users` is in the format of `/etc/passwd`. Not only the user of this
/// process is protected: a container of a node that runs as root may have the id of another user.
fn paths(users: &str, home: Option<&Path>, variable: &dyn Fn(&str) -> Option<PathBuf>) -> BTreeSet<PathBuf> {
    let homes = users.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let user: u32 = fields.get(2)?.parse().ok()?;
        (user == 0 || PEOPLE.contains(&user)).then(|| PathBuf::from(fields.get(5).copied().unwrap_or_default()))
    });
    let homes = homes.chain(home.map(Path::to_owned));
    let kept = homes.flat_map(|home| IN_HOME.iter().map(move |name| home.join(name)));
    let named = VARIABLES.iter().filter_map(|name| variable(name));
    let named: Vec<PathBuf> = named.flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>()).collect();
    kept.chain(named).filter(|path| path.is_absolute() && path.parent().is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_homes_of_people_and_named_files_are_known() {
        let users = "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/usr/sbin:/bin/false\nme:x:1000:1000::/home/me:/bin/sh\n\
                     nobody:x:65534:65534::/nonexistent:/bin/false\nrubbish\nempty:x:1001:1001:::\n";
        let variable = |name: &str| (name == "KUBECONFIG").then(|| PathBuf::from("/etc/one:relative:/etc/two"));
        let found = paths(users, Some(Path::new("/srv/me")), &variable);
        let has = |path: &str| found.contains(Path::new(path));
        for home in ["/root", "/home/me", "/srv/me"] {
            for name in [".ssh", ".aws", ".kube", ".config/gcloud", ".docker", ".gnupg", ".netrc", ".config/gh"] {
                assert!(has(&format!("{home}/{name}")), "{home}/{name}");
            }
        }
        assert!(has("/etc/one") && has("/etc/two") && !has("relative"));
        assert!(!found.iter().any(|path| path.starts_with("/usr") || path.starts_with("/nonexistent")));
    }
}
