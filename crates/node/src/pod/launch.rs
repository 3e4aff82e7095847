//! Builds the start parameters of a container's process.

use std::{
    fs, io,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use domain::contract::paths::TERMINATION_LOG;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;

use crate::{
    pod::environment::Environment,
    process::helper::{Init, Mount, Process, Root, source},
    runtime::images::Image,
};

/// Limit of Linux.
const MAX_HOST_NAME: usize = 63;

/// User and groups of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) groups: Vec<u32>,
}

/// Resolves the user; an error if runAsNonRoot is set and the user would be root.
pub(crate) fn identity(pod: &Pod, container: &Container, image: &Image) -> Result<Identity, String> {
    let whole = pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let id = |number: Option<i64>| number.and_then(|number| u32::try_from(number).ok());
    let user = id(own.run_as_user.or(whole.run_as_user)).unwrap_or(image.user);
    let group = id(own.run_as_group.or(whole.run_as_group)).unwrap_or(image.group);
    if user == 0 && own.run_as_non_root.or(whole.run_as_non_root).unwrap_or_default() {
        return Err(format!(
            "container has runAsNonRoot and image will run as root (pod: \"{}_{}({})\", container: {})",
            pod.name_any(),
            pod.namespace().unwrap_or_default(),
            pod.uid().unwrap_or_default(),
            container.name,
        ));
    }
    let more = whole.supplemental_groups.unwrap_or_default().into_iter().chain(whole.fs_group);
    let groups = more.filter_map(|number| u32::try_from(number).ok()).collect();
    Ok(Identity { user, group, groups })
}

/// The security context for a container engine. Without an engine, containers have no capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Security {
    /// User and group, unless both are the defaults of the image.
    pub(crate) user: Option<String>,
    /// Dropped and added capabilities.
    pub(crate) drop: Vec<String>,
    pub(crate) add: Vec<String>,
    pub(crate) no_new_privileges: bool,
    /// Whether the root file system is read-only.
    pub(crate) read_only_root: bool,
}

pub(crate) fn security(pod: &Pod, container: &Container, identity: &Identity) -> Security {
    let whole = pod.spec.as_ref().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
    let own = container.security_context.clone().unwrap_or_default();
    let user = own.run_as_user.or(whole.run_as_user).is_some();
    let group = own.run_as_group.or(whole.run_as_group).is_some();
    let capabilities = own.capabilities.unwrap_or_default();
    Security {
        user: match (user, group) {
            (_, true) => Some(format!("{}:{}", identity.user, identity.group)),
            (true, false) => Some(identity.user.to_string()),
            (false, false) => None,
        },
        drop: capabilities.drop.unwrap_or_default(),
        add: capabilities.add.unwrap_or_default(),
        no_new_privileges: own.allow_privilege_escalation == Some(false),
        read_only_root: own.read_only_root_filesystem.unwrap_or_default(),
    }
}

/// Whether rarely used system calls are blocked: unless the seccomp profile is Unconfined.
fn is_confined(pod: &Pod, container: &Container) -> bool {
    let whole = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let whole = whole.and_then(|context| context.seccomp_profile.as_ref());
    let own = container.security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
    own.or(whole).is_none_or(|profile| profile.type_ != "Unconfined")
}

pub(crate) fn volume_group(pod: &Pod) -> Option<u32> {
    let group = pod.spec.as_ref()?.security_context.as_ref()?.fs_group?;
    u32::try_from(group).ok()
}

/// The command of a container, with `$(NAME)` expanded.
pub(crate) fn command(container: &Container, image: &Image, environment: &Environment) -> Vec<String> {
    let given = |command: &Option<Vec<String>>| command.clone().filter(|command| !command.is_empty());
    let (own, arguments) = (given(&container.command), given(&container.args));
    let own = own.map(|command| environment.expand(&command));
    let arguments = arguments.map(|command| environment.expand(&command));
    match (own, arguments) {
        (Some(own), arguments) => own.into_iter().chain(arguments.unwrap_or_default()).collect(),
        (None, arguments) => {
            let arguments = arguments.unwrap_or_else(|| image.arguments.clone());
            image.entrypoint.iter().cloned().chain(arguments).collect()
        }
    }
}

/// The content of /etc/hosts.
pub(crate) fn hosts(pod: &Pod, address: Ipv4Addr) -> String {
    let mut text =
        format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{address}\t{}\n", host_name(pod));
    for alias in pod.spec.iter().flat_map(|spec| spec.host_aliases.iter().flatten()) {
        let names = alias.hostnames.as_deref().unwrap_or_default().join(" ");
        text.extend([alias.ip.as_str(), "\t", &names, "\n"]);
    }
    text
}

fn host_name(pod: &Pod) -> String {
    let own = pod.spec.as_ref().and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
    let mut name = own.unwrap_or_else(|| pod.name_any());
    name.truncate(MAX_HOST_NAME);
    name
}

#[derive(Clone, Debug)]
pub(crate) struct Directories {
    /// The directory of the Pod.
    pub(crate) own: PathBuf,
    /// An empty directory that all containers share.
    pub(crate) scratch: PathBuf,
    /// Files and directories that are hidden from containers.
    pub(crate) hidden: Vec<PathBuf>,
}

impl Directories {
    /// The path of the termination message of a run.
    pub(crate) fn message(&self, container: &str, run: u32) -> PathBuf {
        self.own.join("messages").join(format!("{container}-{run}"))
    }

    pub(crate) fn log(&self, container: &str) -> PathBuf {
        self.own.join("logs").join(container)
    }
}

/// A container to start.
pub(crate) struct Launch<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) image: &'a Image,
    pub(crate) environment: &'a Environment,
    pub(crate) identity: Identity,
    pub(crate) volumes: Vec<Mount>,
    pub(crate) run: u32,
    pub(crate) address: Ipv4Addr,
    /// Whether the node can switch to the user; otherwise a user namespace maps it.
    pub(crate) switch_user: bool,
    /// Whether an engine provides the image's file system, which has its own /tmp and home.
    pub(crate) engine: bool,
}

impl Launch<'_> {
    /// Creates the files of this run, and returns the start parameters.
    pub(crate) fn prepare(self, directories: &Directories) -> io::Result<Init> {
        let Self { pod, container, image, environment, identity, volumes, run, address, switch_user, engine } = self;
        let name = container.name.as_str();
        let hosts_file = directories.own.join("hosts");
        fs::write(&hosts_file, hosts(pod, address))?;
        let message = directories.message(name, run);
        create_parent(&message)?;
        fs::write(&message, b"")?;
        fs::set_permissions(&message, fs::Permissions::from_mode(0o666))?;

        let mut mounts = volumes;
        let put = |mounts: &mut Vec<Mount>, source: PathBuf, target: &Path, read_only: bool| {
            if !mounts.iter().any(|mount| mount.target == target) {
                mounts.push(Mount { source, part: None, target: target.to_owned(), read_only });
            }
        };
        let own_tmp = directories.own.join("tmp").join(name);
        if !engine && !mounts.iter().any(|mount| mount.target == Path::new("/tmp")) {
            fs::create_dir_all(&own_tmp)?;
            fs::set_permissions(&own_tmp, fs::Permissions::from_mode(0o1777))?;
            put(&mut mounts, own_tmp, Path::new("/tmp"), false);
        }
        put(&mut mounts, hosts_file, Path::new("/etc/hosts"), true);
        let message_path = container.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG);
        put(&mut mounts, message, Path::new(message_path), false);
        for (source, target) in &image.files {
            put(&mut mounts, source.clone(), target, true);
        }

        if engine {
            for mount in &mut mounts {
                mount.source = source(mount)?;
                mount.part = None;
            }
        }

        let host = host_name(pod);
        let home = ("HOME".to_owned(), "/tmp".to_owned());
        let ours = [("HOSTNAME".to_owned(), host.clone())].into_iter().chain((!engine).then_some(home));
        let directory = container.working_dir.as_ref().filter(|directory| !directory.is_empty());
        let process = Process {
            command: command(container, image, environment),
            env: environment.complete(image.env.iter().cloned().chain(ours)),
            directory: directory.map_or_else(|| image.directory.clone(), PathBuf::from),
            user: identity.user,
            group: identity.group,
            groups: identity.groups,
            switch_user,
            confined: is_confined(pod, container),
        };
        let root = Root { scratch: directories.scratch.clone(), mounts, hidden: directories.hidden.clone() };
        Ok(Init { root, hostname: host, process })
    }
}

fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: &Value) -> Pod {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn a_container_runs_as_whom_it_says_then_the_pod_then_the_image() {
        let check = |whole: Value, own: Value, expected: Result<(u32, u32, &[u32]), &str>| {
            let pod = pod(&json!({"containers": [{"name": "c", "securityContext": own}], "securityContext": whole}));
            let container = &pod.spec.as_ref().unwrap().containers[0];
            let found = identity(&pod, container, &Image::default());
            match (found, expected) {
                (Ok(found), Ok((user, group, groups))) => {
                    assert_eq!((found.user, found.group, found.groups.as_slice()), (user, group, groups));
                }
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        };
        check(json!({}), json!({}), Ok((1000, 1000, &[])));
        check(json!({"runAsUser": 7, "fsGroup": 9, "runAsNonRoot": true}), json!({}), Ok((7, 1000, &[9])));
        check(json!({"runAsUser": 7}), json!({"runAsUser": 8, "runAsGroup": 5}), Ok((8, 5, &[])));
        check(json!({"runAsNonRoot": true}), json!({"runAsUser": 0}), Err("runAsNonRoot"));
        check(json!({}), json!({"runAsUser": 0}), Ok((0, 1000, &[])));
    }

    #[test]
    fn an_engine_gets_a_user_only_if_the_pod_names_one() {
        let check = |whole: Value, own: Value, expected: &str| {
            let pod = pod(&json!({"containers": [{"name": "c", "securityContext": own}], "securityContext": whole}));
            let container = &pod.spec.as_ref().unwrap().containers[0];
            let identity = identity(&pod, container, &Image { user: 5, group: 6, ..Image::default() }).unwrap();
            let found = security(&pod, container, &identity);
            let rights = format!("{:?} -{} +{}", found.user, found.drop.join(","), found.add.join(","));
            let flags = format!("{} {}", found.no_new_privileges, found.read_only_root);
            assert_eq!(format!("{rights} {flags}"), expected);
        };
        check(json!({}), json!({}), "None - + false false");
        check(json!({"runAsUser": 7}), json!({"allowPrivilegeEscalation": false}), "Some(\"7\") - + true false");
        check(
            json!({"runAsGroup": 9}),
            json!({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}, "readOnlyRootFilesystem": true}),
            "Some(\"5:9\") -ALL +CHOWN false true",
        );
    }

    #[test]
    fn the_command_comes_from_the_container_or_the_image() {
        let image = Image { entrypoint: vec!["/entry".into()], arguments: vec!["default".into()], ..Image::default() };
        let environment = Environment { own: vec![("A".into(), "1".into())] };
        let check = |container: Value, expected: &[&str]| {
            let container = serde_json::from_value(container).unwrap();
            assert_eq!(command(&container, &image, &environment), expected);
        };
        check(json!({"name": "c"}), &["/entry", "default"]);
        check(json!({"name": "c", "args": ["$(A)"]}), &["/entry", "1"]);
        check(json!({"name": "c", "command": ["run", "$(B)"]}), &["run", "$(B)"]);
        check(json!({"name": "c", "command": ["run"], "args": ["$(A)$$(A)"]}), &["run", "1$(A)"]);
    }

    #[test]
    fn the_hosts_file_knows_the_pod_and_its_aliases() {
        let pod = pod(&json!({"containers": [], "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a", "b"]}]}));
        let text = hosts(&pod, Ipv4Addr::new(127, 80, 0, 9));
        assert!(text.contains("127.80.0.9\tp\n") && text.ends_with("10.1.2.3\ta b\n"), "{text}");
    }
}
