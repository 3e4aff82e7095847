//! How the components of a node are configured.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::{CGROUP, NAME, POD_GATEWAY, POD_RANGE};
use crate::Error;
use crate::assets::Program;
use crate::certs::Authority;
use crate::process::Leash;

pub(super) const PROXY_HEALTH_PORT: u16 = 10256;
pub(super) const PAUSE_IMAGE: &str = "testenv.local/pause:1";

/// The programs that are started once containerd runs. They run in the directory of the cluster.
pub(super) fn flags() -> [(Program, Vec<String>); 3] {
    let name = format!("--hostname-override={NAME}");
    let kubelet = [
        "--config=kubelet.json".to_owned(),
        "--kubeconfig=kubelet.kubeconfig".to_owned(),
        format!("--node-ip={POD_GATEWAY}"),
        name.clone(),
    ];
    let proxy = [
        "--kubeconfig=kube-proxy.kubeconfig".to_owned(),
        "--proxy-mode=iptables".to_owned(),
        // The table of connections is shared with the host: leave its size alone.
        "--conntrack-max-per-core=0".to_owned(),
        // Answers between two Pods of one bridge would otherwise go past the rules where br_netfilter is not loaded.
        "--masquerade-all".to_owned(),
        format!("--healthz-bind-address={POD_GATEWAY}:{PROXY_HEALTH_PORT}"),
        name,
    ];
    let coredns = ["-conf=Corefile".to_owned()];
    [(Program::Kubelet, kubelet.into()), (Program::Proxy, proxy.into()), (Program::Coredns, coredns.into())]
}

/// Lets a program find the unpacked packages.
pub(super) fn environment(command: &mut Command, runtime: &Path) {
    let unpacked = ["usr/bin", "usr/sbin", "sbin", "bin"].map(|dir| runtime.join(dir));
    let host = std::env::var_os("PATH").unwrap_or_default();
    let places = std::iter::once(PathBuf::from("/run/iptables")).chain(unpacked).chain(std::env::split_paths(&host));
    let libraries = runtime.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    command.env("PATH", std::env::join_paths(places).unwrap_or_else(|_| OsString::from("/run/iptables")));
    command.env("LD_LIBRARY_PATH", &libraries).env("XTABLES_LIBDIR", libraries.join("xtables"));
}

/// Writes the configuration and the identity of each component into the directory of the cluster.
pub(super) fn write(leash: &Leash, authority: &Authority, url: &str, runtime: &Path) -> Result<(), Error> {
    let gateway = POD_GATEWAY.to_string();
    let kubelet = authority.issue(&format!("system:node:{NAME}"), "system:nodes", &[NAME, &gateway])?;
    leash.write("kubelet.crt", &kubelet.certificate)?;
    leash.write("kubelet.key", &kubelet.key)?;
    leash.write("kubelet.kubeconfig", &authority.kubeconfig(url, &kubelet))?;
    // A node's identity may not list Services.
    for (name, user, group) in [("kube-proxy", "system:kube-proxy", ""), ("coredns", "coredns", "system:masters")] {
        let config = authority.kubeconfig(url, &authority.issue(user, group, &[])?);
        leash.write(&format!("{name}.kubeconfig"), &config)?;
    }
    leash.write("kubelet.json", &kubelet_config(leash.dir()))?;
    leash.write("containerd.toml", &containerd_config(leash.dir(), runtime))?;
    leash.write("10-bridge.conflist", &network_config())?;
    leash.write(
        "Corefile",
        ". {\n  errors\n  cache 5\n  kubernetes cluster.local {\n    kubeconfig coredns.kubeconfig testenv\n  }\n}\n",
    )?;
    Ok(())
}

fn kubelet_config(dir: &Path) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": dir.join("ca.crt")},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": dir.join("kubelet.crt"),
        "tlsPrivateKeyFile": dir.join("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{}/containerd.sock", dir.display()),
        "clusterDNS": [POD_GATEWAY],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{CGROUP}"),
        "failCgroupV1": false,
        "failSwapOn": false,
        // The default needs CAP_SYS_RESOURCE, which root in a container often lacks.
        "oomScoreAdj": 0,
        "localStorageCapacityIsolation": false,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "50Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "0%",
        },
    })
    .to_string()
}

fn containerd_config(dir: &Path, runtime: &Path) -> String {
    let (dir, runtime) = (dir.display(), runtime.display());
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "{dir}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true # without CAP_SYS_RESOURCE every sandbox would fail
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{runtime}/usr/lib/cni"
conf_dir = "{dir}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{runtime}/usr/sbin/runc"
"#
    )
}

fn network_config() -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "testenv",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni-addresses",
                    "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
    .to_string()
}
