//! One node that runs Pods: containerd, kubelet, kube-proxy and CoreDNS in mount, network and pid namespaces of their own.
//!
//! The host and the node are joined by a pair of virtual interfaces:
//!
//! ```text
//!   host 10.89.0.1 (API server, tests) --- 10.89.0.2 node 10.88.0.1 (kubelet, DNS) --- Pods 10.88.0.0/24
//! ```
//!
//! The addresses exist only inside the machine. Routes of last resort on the host reject what would otherwise follow the
//! default route when the node is gone.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;

use crate::assets::{Program, lock};
use crate::certs::Authority;
use crate::image::{self, Image};
use crate::process::Leash;
use crate::{Cluster, packages, tool};

mod config;

/// The host's address on the link to the node: the API server listens here, and what a test serves to Pods should.
pub const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 1);
/// The node's address on the link to the host.
const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 89, 0, 2);
/// The node's address for Pods, the API server and DNS.
const POD_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const POD_RANGE: &str = "10.88.0.0/24";
/// The addresses of Services.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/16";
const RANGES: [&str; 3] = ["10.89.0.0/24", POD_RANGE, SERVICE_RANGE];
/// The address of the Service `kubernetes`, always the first of the range.
pub(crate) const API_SERVICE_IP: &str = "10.96.0.1";

const HOST_LINK: &str = "testenv-host";
const NODE_LINK: &str = "testenv-node";
const NAME: &str = "node1";
/// Not `kubeopencode-…`: the product clears away groups of that name that no platform has any more.
const CGROUP: &str = "testenv-kubeopencode";

/// Kernel settings that the kubelet changes for the whole machine. Restored at the end.
const SYSCTLS: [&str; 6] = [
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
];

/// A Ready node takes 6 to 14 s on two cores.
const LIMIT: Duration = Duration::from_secs(90);

/// A node could not be created or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user may not make namespaces, mounts and cgroups.
    #[error("a node needs root for its namespaces, mounts and cgroups: run this as root, for example with `sudo -E`")]
    NotRoot,
    /// The node would cover the directory with an empty one.
    #[error("{} cannot be used by a node, which has its own /run, /var/lib and /var/log: name another directory", path.display())]
    Covered {
        /// Which.
        path: PathBuf,
    },
    /// Only a node that was started here can be given images.
    #[error("the cluster has no node that was started here, so no image can be loaded into it")]
    NotOurs,
    /// An image was loaded but the kubelet does not see it.
    #[error("the image of {} did not become usable in 30 s; containerd has:\n{images}", archive.display())]
    Unmanaged {
        /// Which.
        archive: PathBuf,
        /// The images that are present.
        images: String,
    },
    /// A file or cgroup could not be used.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Checks the preconditions before anything is built or downloaded.
pub(crate) fn check(options: &crate::Options) -> Result<(), crate::Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot.into());
    }
    for path in [Some(crate::cache()?), options.dir.clone()].into_iter().flatten() {
        if ["/run", "/var/lib", "/var/log"].iter().any(|dir| path.starts_with(dir)) {
            return Err(Error::Covered { path }.into());
        }
    }
    Ok(())
}

/// Waits until no other process of the machine has a node. The node's supervisor keeps the file until all is cleaned up.
pub(crate) async fn exclusive() -> Result<File, crate::Error> {
    let path = Path::new("/run/kubeopencode-testenv-node.lock");
    let message = "another process of this machine has a node; waiting for it to end";
    Ok(tokio::task::spawn_blocking(|| lock(path, message)).await??)
}

/// Makes the host's side: first the script that undoes it, then routes and link.
pub(crate) fn connect(leash: &Leash) -> Result<(), crate::Error> {
    let undo = leash.write("undo.sh", &undo_script()?)?;
    tool::run(Command::new("sh").arg(undo))?; // what a machine has that lost its supervisor
    let ip = |args: &str| tool::run(Command::new("ip").args(args.split(' ')));
    for range in RANGES {
        ip(&format!("route add unreachable {range} metric 4096"))?;
    }
    ip(&format!("link add {HOST_LINK} type veth peer name {NODE_LINK}"))?;
    ip(&format!("address add {HOST_ADDRESS}/24 dev {HOST_LINK}"))?;
    ip(&format!("link set {HOST_LINK} up"))?;
    ip(&format!("route add {POD_RANGE} via {NODE_ADDRESS}"))?;
    for dir in cgroups()? {
        fs::create_dir(&dir).map_err(|source| Error::File { path: dir, source })?;
    }
    Ok(())
}

/// Starts the node and returns when it is Ready, resolves names and has its images.
pub(crate) async fn join(leash: &mut Leash, authority: &Authority, cluster: &Cluster) -> Result<(), crate::Error> {
    let runtime = packages::obtain()?;
    let namespaces = make_namespaces(leash, &runtime).await?;
    let inside = |program: &Path, args: &[String]| namespaces.command(&runtime, program, args);
    config::write(leash, authority, cluster.url(), &runtime)?;

    leash.spawn("containerd", inside(&runtime.join("usr/bin/containerd"), &["--config=containerd.toml".to_owned()]))?;
    let socket = leash.dir().join("containerd.sock");
    let connects = || std::future::ready(UnixStream::connect(&socket).is_ok());
    leash.until("containerd", "an open socket", LIMIT, connects).await?;
    for (program, flags) in config::flags() {
        leash.spawn(program.name(), inside(&program.obtain()?, &flags))?;
    }
    let dir = leash.dir().to_owned();
    tokio::task::spawn_blocking(move || load_own_images(&dir, &runtime)).await??;

    let nodes = Api::<Node>::all(cluster.client().await?);
    leash.until(Program::Kubelet.name(), "a Ready node", LIMIT, || is_ready(&nodes)).await?;
    let resolves = || std::future::ready(connect_to(53).is_some());
    leash.until(Program::Coredns.name(), "an open port", LIMIT, resolves).await?;
    let forwards = || std::future::ready(proxy_is_healthy());
    leash.until(Program::Proxy.name(), "its first rules", LIMIT, forwards).await?;
    Ok(())
}

/// Loads a docker archive and waits until the kubelet can use it.
pub(crate) fn import(dir: &Path, archive: &Path) -> Result<(), crate::Error> {
    let socket = dir.join("containerd.sock");
    if !socket.exists() {
        return Err(Error::NotOurs.into());
    }
    let ctr = |args: &[&str], file: Option<&Path>| {
        let mut command = Command::new(packages::obtain()?.join("usr/bin/ctr"));
        command.arg("--address").arg(&socket).args(["--namespace", "k8s.io", "images"]).args(args).args(file);
        Ok::<_, crate::Error>(tool::run(&mut command)?)
    };
    ctr(&["import"], Some(archive))?;
    // The kubelet's view follows the store by events; its label on an image shows that it has observed the image.
    let mut images = String::new();
    for _ in 0..300 {
        images = ctr(&["list"], None)?;
        if images.lines().skip(1).all(|image| image.contains("io.cri-containerd.image=managed")) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(Error::Unmanaged { archive: archive.to_owned(), images }.into())
}

/// The process that holds the namespaces; its files in `/proc` name them.
struct Namespaces {
    holder: u32,
    dir: PathBuf,
}

impl Namespaces {
    fn command(&self, runtime: &Path, program: &Path, args: &[String]) -> Command {
        let path = |name| format!("/proc/{}/ns/{name}", self.holder);
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount={}", path("mnt"))).arg(format!("--net={}", path("net")));
        command.arg(format!("--pid={}", path("pid_for_children")));
        // Entering a mount namespace leads to its root.
        command.args(["--", "sh", "-c", r#"cd "$0" && exec "$@""#]).arg(&self.dir).arg(program).args(args);
        config::environment(&mut command, runtime);
        command
    }
}

async fn make_namespaces(leash: &mut Leash, runtime: &Path) -> Result<Namespaces, crate::Error> {
    let script = leash.write("node.sh", include_str!("node.sh"))?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh"]).arg(script);
    unshare.env("RUNTIME", runtime).env("NODE_LINK", NODE_LINK).env("SERVICE_RANGE", SERVICE_RANGE);
    for (name, address) in
        [("HOST_ADDRESS", HOST_ADDRESS), ("NODE_ADDRESS", NODE_ADDRESS), ("POD_GATEWAY", POD_GATEWAY)]
    {
        unshare.env(name, address.to_string());
    }
    let id = leash.spawn("node", unshare)?;
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let moved = || std::future::ready(network(&id.to_string()) != network("self"));
    leash.until("node", "its namespaces", LIMIT, moved).await?;
    tool::run(Command::new("ip").args(["link", "set", NODE_LINK, "netns", &id.to_string()]))?;
    let done = leash.dir().join("node.is-set-up");
    leash.until("node", "its mounts and network", LIMIT, || std::future::ready(done.exists())).await?;
    Ok(Namespaces { holder: id, dir: leash.dir().to_owned() })
}

/// The images that every node has: the pause container, and a shell with the usual tools.
fn load_own_images(dir: &Path, runtime: &Path) -> Result<(), crate::Error> {
    let root = dir.join("busybox");
    let bin = root.join("bin");
    let fails = |source| Error::File { path: bin.clone(), source };
    fs::create_dir_all(&bin).map_err(fails)?;
    fs::create_dir_all(root.join("tmp")).map_err(fails)?;
    let busybox = runtime.join("bin/busybox");
    fs::copy(&busybox, bin.join("busybox")).map_err(fails)?;
    for name in tool::run(Command::new(&busybox).arg("--list"))?.lines().filter(|&name| name != "busybox") {
        std::os::unix::fs::symlink("busybox", bin.join(name)).map_err(fails)?;
    }
    let environment = &["PATH=/bin"];
    for image in [
        Image { name: config::PAUSE_IMAGE, entrypoint: &["/bin/sleep", "2147483647"], environment, user: "" },
        Image { name: "testenv.local/busybox:1", entrypoint: &["/bin/sh"], environment, user: "" },
    ] {
        let archive = dir.join("image.tar");
        image::archive(&image, &root, &archive)?;
        import(dir, &archive)?;
    }
    Ok(())
}

async fn is_ready(nodes: &Api<Node>) -> bool {
    let Ok(Ok(Some(node))) = tokio::time::timeout(Duration::from_secs(2), nodes.get_opt(NAME)).await else {
        return false;
    };
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn connect_to(port: u16) -> Option<TcpStream> {
    TcpStream::connect_timeout(&SocketAddr::from((POD_GATEWAY, port)), Duration::from_secs(1)).ok()
}

fn proxy_is_healthy() -> bool {
    let Some(mut stream) = connect_to(config::PROXY_HEALTH_PORT) else { return false };
    let mut answer = String::new();
    let asked = stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").and_then(|()| stream.read_to_string(&mut answer));
    asked.is_ok() && answer.lines().next().is_some_and(|status| status.contains(" 200 "))
}

/// The node's cgroup in every hierarchy (version 1) or in the one (version 2).
fn cgroups() -> Result<Vec<PathBuf>, Error> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.join(CGROUP)]);
    }
    let fails = |source| Error::File { path: root.to_owned(), source };
    let hierarchies = root.read_dir().map_err(fails)?.flatten().map(|entry| entry.path());
    Ok(hierarchies.filter(|dir| dir.is_dir() && !dir.is_symlink()).map(|dir| dir.join(CGROUP)).collect())
}

/// Commands that undo the changes to the machine. Each may fail: they also run after a partial start.
fn undo_script() -> Result<String, Error> {
    let mut lines = vec!["exec 2>/dev/null".to_owned(), format!("ip link delete {HOST_LINK}")];
    lines.extend(RANGES.map(|range| format!("ip route delete unreachable {range} metric 4096")));
    for name in SYSCTLS {
        if let Ok(value) = fs::read_to_string(format!("/proc/sys/{name}")) {
            lines.push(format!("echo {} >/proc/sys/{name}", value.trim()));
        }
    }
    for dir in cgroups()? {
        lines.push(format!("find {} -depth -type d -exec rmdir {{}} \\;", dir.display()));
    }
    lines.push("exit 0\n".to_owned());
    Ok(lines.join("\n"))
}
