//! Command-line arguments for an engine.
//!
//! Podman and Docker accept the same arguments. Every user of the machine can read the arguments of a process, so the
//! values of variables, which may be Secrets, are passed in a file that only the node can read, and the few that do not
//! fit there through the environment of the command.

use std::{fmt::Write as _, path::Path};

use crate::{process::limits::Limits, runtime::Ready};

/// Label by which a node finds its containers.
pub(super) const LABEL: &str = "io.kubeopencode.node";
/// Engines do not read longer lines from the file.
const MAX_LINE: usize = 60_000;
/// Prefixes of variables that configure the engine's own command.
const ENGINE_VARIABLES: [&str; 14] = [
    "BUILDAH_",
    "CONTAINER_",
    "CONTAINERS_",
    "DBUS_",
    "DOCKER_",
    "GO",
    "HOME",
    "LD_",
    "LISTEN_",
    "NOTIFY_",
    "PATH",
    "REGISTRY_",
    "TMPDIR",
    "XDG_",
];

/// The variables of a container, by how they are passed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Variables {
    /// The env file: one `NAME=VALUE` per line.
    pub(super) file: String,
    /// Variables that do not fit on a line.
    pub(super) passed: Vec<(String, String)>,
}

impl Variables {
    pub(super) fn of(env: &[(String, String)]) -> Result<Self, String> {
        let mut variables = Self::default();
        for (name, value) in env {
            let fits = !value.contains(['\n', '\r']) && name.len() + value.len() < MAX_LINE;
            if fits {
                // Writing to a String cannot fail.
                let _ = writeln!(variables.file, "{name}={value}");
            } else if ENGINE_VARIABLES.iter().any(|beginning| name.starts_with(beginning)) {
                return Err(format!("variable {name} contains a line break or is too long for the engine"));
            } else {
                variables.passed.push((name.clone(), value.clone()));
            }
        }
        Ok(variables)
    }
}

/// The arguments of `create`, without the program.
pub(super) fn create(ready: &Ready, node: &str, variables: &Variables, file: &Path) -> Vec<String> {
    let Ready { name, image, init, limits, security } = ready;
    let mut args: Vec<String> = ["create", "--network", "host", "--log-driver", "none"].map(str::to_owned).into();
    let mut option = |name: &str, value: &str| args.extend([format!("--{name}"), value.to_owned()]);
    option("name", name);
    // The node stops a container before it removes it.
    option("stop-timeout", "0");
    option("label", &format!("{LABEL}={node}"));
    option("hostname", &init.hostname);
    // Volumes are directories of the platform; relabeling would change files of the user.
    option("security-opt", "label=disable");
    option("env-file", &file.display().to_string());
    for (variable, _) in &variables.passed {
        option("env", variable);
    }
    option("workdir", &init.process.directory.display().to_string());
    if let Some(user) = &security.user {
        option("user", user);
    }
    for group in &init.process.groups {
        option("group-add", &group.to_string());
    }
    for capability in &security.drop {
        option("cap-drop", capability);
    }
    for capability in &security.add {
        option("cap-add", capability);
    }
    if security.no_new_privileges {
        option("security-opt", "no-new-privileges");
    }
    for (name, value) in limited(limits) {
        option(name, &value);
    }
    for mount in &init.root.mounts {
        option("mount", &bound(&mount.source, &mount.target, mount.read_only));
    }
    if security.read_only_root {
        args.push("--read-only".to_owned());
    }
    let (entrypoint, arguments) = match init.process.command.split_first() {
        Some((entrypoint, arguments)) => (entrypoint.clone(), arguments),
        None => (String::new(), [].as_slice()),
    };
    args.extend([format!("--entrypoint={entrypoint}"), image.clone()]);
    args.extend(arguments.iter().cloned());
    args
}

fn limited(limits: &Limits) -> Vec<(&'static str, String)> {
    let mut options = Vec::new();
    if let Some(bytes) = limits.memory {
        // No swap: both numbers are equal.
        options.extend([("memory", bytes.to_string()), ("memory-swap", bytes.to_string())]);
    }
    if let Some(cpu) = limits.cpu {
        options.push(("cpus", format!("{}.{:03}", cpu / 1000, cpu % 1000)));
    }
    options
}

/// A `--mount` argument. A field with a comma or a quote is quoted, as in CSV.
fn bound(source: &Path, target: &Path, read_only: bool) -> String {
    let field = |name: &str, path: &Path| {
        let text = format!("{name}={}", path.display());
        if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let access = if read_only { ",readonly" } else { "" };
    format!("type=bind,{},{}{access}", field("source", source), field("target", target))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::{
        pod::Security,
        process::helper::{Init, Mount, Process, Root},
    };

    fn ready() -> Ready {
        let mount = |source: &str, target: &str, read_only| Mount {
            source: source.into(),
            part: None,
            target: target.into(),
            read_only,
        };
        Ready {
            name: "uid-main-0".into(),
            image: "team/app:1".into(),
            init: Init {
                root: Root {
                    scratch: PathBuf::new(),
                    mounts: vec![mount("/s/v", "/work", false), mount("/s/a,b", "/etc/hosts", true)],
                    hidden: Vec::new(),
                },
                hostname: "my-pod".into(),
                process: Process {
                    command: vec!["run".into(), "--fast".into()],
                    env: vec![("TOKEN".into(), "sesame".into()), ("KEY".into(), "two\nlines".into())],
                    directory: "/work".into(),
                    user: 1000,
                    group: 1000,
                    groups: vec![9],
                    switch_user: false,
                    confined: true,
                },
            },
            limits: Limits { memory: Some(64 << 20), cpu: Some(1500), cpu_request: None, processes: 9 },
            security: Security {
                user: Some("1000:1000".into()),
                drop: vec!["ALL".into()],
                add: vec!["CHOWN".into()],
                no_new_privileges: true,
                read_only_root: true,
            },
        }
    }

    #[test]
    fn a_container_is_created_with_arguments_that_podman_and_docker_share() {
        let ready = ready();
        let variables = Variables::of(&ready.init.process.env).unwrap();
        let args = create(&ready, "node-1", &variables, Path::new("/s/private/env"));
        assert_eq!(
            args.join(" "),
            "create --network host --log-driver none --name uid-main-0 --stop-timeout 0 --label io.kubeopencode.node=node-1 \
             --hostname my-pod --security-opt label=disable --env-file /s/private/env --env KEY --workdir /work \
             --user 1000:1000 --group-add 9 --cap-drop ALL --cap-add CHOWN --security-opt no-new-privileges \
             --memory 67108864 --memory-swap 67108864 --cpus 1.500 --mount type=bind,source=/s/v,target=/work \
             --mount type=bind,\"source=/s/a,b\",target=/etc/hosts,readonly --read-only --entrypoint=run team/app:1 \
             --fast"
        );
    }

    #[test]
    fn no_value_of_a_variable_is_an_argument() {
        let ready = ready();
        let variables = Variables::of(&ready.init.process.env).unwrap();
        let args = create(&ready, "node-1", &variables, Path::new("/s/private/env")).join(" ");
        assert!(!args.contains("sesame") && !args.contains("lines"), "{args}");
        assert_eq!(variables.file, "TOKEN=sesame\n");
        assert_eq!(variables.passed, [("KEY".to_owned(), "two\nlines".to_owned())]);
    }

    #[test]
    fn variables_of_the_engine_itself_are_never_passed_to_it() {
        let env = [("PATH".to_owned(), "/bin\n".to_owned())];
        assert!(Variables::of(&env).unwrap_err().contains("PATH"));
        let env = [("PATH".to_owned(), "/bin".to_owned())];
        assert_eq!(Variables::of(&env).unwrap().file, "PATH=/bin\n");
    }
}
