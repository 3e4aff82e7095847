//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler, without privileges, on one address.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::KeyPair;

use crate::assets::Program;
use crate::certs::Authority;
use crate::process::{self, Leash};
use crate::{Error, Options, node};

/// The API server is usually ready in 4 s; a loaded machine with two cores was seen to need 20.
const READY_LIMIT: Duration = Duration::from_secs(90);

/// A port that was free a moment ago may be taken; so many times another one is tried.
const PORT_ATTEMPTS: u32 = 5;

/// Addresses and credentials of a running control plane.
pub(crate) struct ControlPlane {
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) authority: Authority,
}

/// Starts the control plane in the directory of `leash` and returns when the API server is ready.
pub(crate) async fn start(leash: &mut Leash, options: &Options) -> Result<ControlPlane, Error> {
    let address = if options.node { node::HOST_ADDRESS } else { Ipv4Addr::LOCALHOST };
    let authority = Authority::new()?;
    write_identities(leash, &authority, address)?;

    leash.spawn(Program::Etcd.name(), command(Program::Etcd, etcd_flags(options))?)?;
    let (url, kubeconfig) = start_apiserver(leash, options, &authority, address).await?;

    for (wanted, program, user, flags) in [
        (options.controller_manager, Program::ControllerManager, "system:kube-controller-manager", manager_flags()),
        (options.scheduler, Program::Scheduler, "system:kube-scheduler", scheduler_flags()),
    ] {
        if wanted {
            let config = authority.kubeconfig(&url, &authority.issue(user, "", &[])?);
            leash.write(&format!("{}.kubeconfig", program.name()), &config)?;
            leash.spawn(program.name(), command(program, flags)?)?;
        }
    }
    Ok(ControlPlane { url, kubeconfig, authority })
}

async fn start_apiserver(
    leash: &mut Leash,
    options: &Options,
    authority: &Authority,
    address: Ipv4Addr,
) -> Result<(String, PathBuf), Error> {
    let admin = authority.issue("admin", "system:masters", &[])?;
    let mut attempt = 1;
    loop {
        let port = free_port(address)?;
        let url = format!("https://{address}:{port}");
        let kubeconfig = leash.write("kubeconfig", &authority.kubeconfig(&url, &admin))?;
        let client = client(Kubeconfig::read_from(&kubeconfig)?).await?;
        let flags = apiserver_flags(leash.dir(), address, port, options);
        leash.spawn(Program::Apiserver.name(), command(Program::Apiserver, flags)?)?;
        match leash.until(Program::Apiserver.name(), "readiness", READY_LIMIT, || is_ready(&client)).await {
            Err(process::Error::Ended { component, log, .. })
                if component == Program::Apiserver.name()
                    && log.contains("address already in use")
                    && attempt < PORT_ATTEMPTS =>
            {
                attempt += 1;
            }
            outcome => return Ok(outcome.map(|()| (url, kubeconfig))?),
        }
    }
}

/// A client as the current user of `config`. It belongs to the runtime that it is made on.
pub(crate) async fn client(config: Kubeconfig) -> Result<Client, Error> {
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    let answer = tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await;
    matches!(answer, Ok(Ok(text)) if text == "ok")
}

fn free_port(address: Ipv4Addr) -> Result<u16, Error> {
    let bound = TcpListener::bind((address, 0)).and_then(|listener| listener.local_addr());
    Ok(bound.map_err(|source| Error::Address { address, source })?.port())
}

fn command(program: Program, flags: Vec<String>) -> Result<Command, Error> {
    let mut command = Command::new(program.obtain()?);
    command.args(flags);
    Ok(command)
}

fn write_identities(leash: &Leash, authority: &Authority, address: Ipv4Addr) -> Result<(), Error> {
    leash.write("ca.crt", authority.certificate())?;
    let address = address.to_string();
    let addresses =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", node::API_SERVICE_IP, &address];
    for (name, identity) in [
        ("apiserver", authority.issue("kube-apiserver", "", &addresses)?),
        ("kubelet-client", authority.issue("kube-apiserver-kubelet-client", "system:masters", &[])?),
    ] {
        leash.write(&format!("{name}.crt"), &identity.certificate)?;
        leash.write(&format!("{name}.key"), &identity.key)?;
    }
    let tokens = KeyPair::generate()?;
    leash.write("tokens.key", &tokens.serialize_pem())?;
    leash.write("tokens.pub", &tokens.public_key_pem())?;
    Ok(())
}

/// etcd listens on sockets in the directory of the cluster: no port to race for, no access for other users. It insists
/// on `host:port` even in the name of a socket.
fn etcd_flags(options: &Options) -> Vec<String> {
    let mut flags = strings(&[
        "--name=testenv",
        "--data-dir=etcd-data",
        "--listen-client-urls=unix://etcd:0",
        "--advertise-client-urls=unix://etcd:0",
        "--listen-peer-urls=unix://etcd-peer:0",
        "--initial-advertise-peer-urls=unix://etcd-peer:0",
        "--initial-cluster=testenv=unix://etcd-peer:0",
    ]);
    if !options.durable {
        flags.push("--unsafe-no-fsync".into());
    }
    flags
}

fn apiserver_flags(dir: &Path, address: Ipv4Addr, port: u16, options: &Options) -> Vec<String> {
    let mut flags = strings(&[
        "--tls-cert-file=apiserver.crt",
        "--tls-private-key-file=apiserver.key",
        "--client-ca-file=ca.crt",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged",
        "--enable-admission-plugins=NodeRestriction",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=tokens.pub",
        "--service-account-signing-key-file=tokens.key",
    ]);
    flags.push(format!("--etcd-servers=unix://{}/etcd:0", dir.display()));
    flags.push(format!("--service-cluster-ip-range={}", node::SERVICE_RANGE));
    flags.push(format!("--bind-address={address}"));
    flags.push(format!("--secure-port={port}"));
    if options.node {
        flags.push(format!("--advertise-address={address}"));
        flags.extend(strings(&[
            "--kubelet-client-certificate=kubelet-client.crt",
            "--kubelet-client-key=kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
        ]));
    } else {
        // The endpoint of the `kubernetes` Service may not be a loopback address, and no Pod is there to use it.
        flags.push("--endpoint-reconciler-type=none".to_owned());
    }
    if !options.controller_manager {
        // No controller creates the `default` ServiceAccount, without which this plugin refuses every Pod.
        flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    flags.extend(options.apiserver_flags.iter().cloned());
    flags
}

fn manager_flags() -> Vec<String> {
    strings(&[
        "--kubeconfig=kube-controller-manager.kubeconfig",
        "--service-account-private-key-file=tokens.key",
        "--root-ca-file=ca.crt",
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ])
}

fn scheduler_flags() -> Vec<String> {
    strings(&[
        "--kubeconfig=kube-scheduler.kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ])
}

fn strings(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|&flag| flag.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_controllers_pods_need_no_service_account() {
        let plugin = "--disable-admission-plugins=ServiceAccount".to_owned();
        let flags = |options| apiserver_flags(Path::new("/tmp/x"), Ipv4Addr::LOCALHOST, 6443, &options);
        assert!(flags(Options::api_only()).contains(&plugin));
        assert!(!flags(Options::default()).contains(&plugin));
    }
}
