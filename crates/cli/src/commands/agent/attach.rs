//! `agent attach`: opens the agent's terminal.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use api::{Agent, names::annotations};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use local::{opencode::SearchPaths, state_dir};
use serde_json::json;
use tokio::{process::Command, time::MissedTickBehavior};

use super::suspend;
use crate::{
    commands::{
        connect::{Cluster, ClusterArgs},
        exit::Exit,
        output::{note, print},
        problem::{Answer, Problem},
        span,
        tunnel::{self, Tunnel},
    },
    up,
};

/// Interval of heartbeats. After two minutes without one the client counts as gone.
const HEARTBEAT: Duration = Duration::from_secs(55);

/// Arguments of `agent attach`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The Agent.
    #[arg(value_name = "AGENT")]
    name: String,
    /// Port of this machine to use; any free one when unset.
    #[arg(long, value_name = "PORT")]
    local_port: Option<u16>,
    /// Continue this session of the agent, such as the one of a Task (status.session.id).
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only open the way to the agent's server and print its address; Ctrl-C closes it.
    #[arg(long)]
    print_url: bool,
    /// Wait at most this long for an Agent that is not ready.
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = span::read)]
    timeout: Duration,
    /// Accepted for compatibility: the way always leads through the Kubernetes API server.
    #[arg(long, hide = true)]
    use_port_forward: bool,
    /// Accepted for compatibility: no KubeOpenCode server is needed.
    #[arg(long, hide = true)]
    server_namespace: Option<String>,
    /// Accepted for compatibility: no KubeOpenCode server is needed.
    #[arg(long, hide = true)]
    server_service: Option<String>,
    /// Accepted for compatibility: no KubeOpenCode server is needed.
    #[arg(long, hide = true)]
    server_port: Option<u16>,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Opens a tunnel to the agent's server and runs OpenCode's client on it.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let agent = tunnel::find(&cluster, &args.name).await?;
    let name = agent.name_any();
    send_heartbeat(&cluster, &name).await;
    if agent.spec.suspend {
        note(&format!("Agent '{name}' is suspended; resuming it"));
        suspend::set(&cluster, &name, false).await?;
    }
    if agent.spec.suspend || agent.status.as_ref().and_then(|status| status.ready) != Some(true) {
        suspend::ready(&cluster, &name, args.timeout).await?;
    }
    let agent = tunnel::find(&cluster, &name).await?;
    let password = tunnel::password(&cluster, &agent).await?;
    let pods: Api<Pod> = cluster.api();
    let pod = tunnel::pod(&cluster, &agent).await?;
    let tunnel = Tunnel::open(pods, pod, tunnel::port(&agent), args.local_port).await?;
    let url = format!("http://{}", tunnel.address);

    let work = async {
        if args.print_url {
            print(&format!("{url}\n"))?;
            if let Some(command) = tunnel::password_command(&cluster, &agent) {
                note(&format!(
                    "the server asks for the user opencode and a password, which this command prints:\n  {command}"
                ));
            }
            tokio::signal::ctrl_c().await?;
            return Ok(Exit::Success);
        }
        client(&program(), &url, password.as_deref(), args.session.as_deref()).await
    };
    tokio::select! {
        done = work => done,
        () = keep_awake(&cluster, &name) => Ok(Exit::Failed),
    }
}

/// OpenCode: what a shell would run or, if the PATH has none, what `kubeopencode up` uses.
fn program() -> PathBuf {
    let name = Path::new("opencode");
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).any(|dir| dir.join(name).is_file()) {
        return name.to_owned();
    }
    // The directory of the platform that the kubeconfig belongs to, then the usual one.
    let kubeconfig = env::var_os("KUBECONFIG").map(PathBuf::from);
    let of_kubeconfig = kubeconfig.as_deref().and_then(Path::parent).filter(|dir| state_dir::is_state_dir(dir));
    let usual = || up::state_dir(env::var_os("KUBEOPENCODE_STATE_DIR").map(PathBuf::from)).ok();
    let dir = of_kubeconfig.map(Path::to_owned).or_else(usual);
    dir.and_then(|dir| SearchPaths::of_process(&dir).find()).unwrap_or_else(|| name.to_owned())
}

/// Runs OpenCode's client. The password is passed in the environment: arguments are visible to every user of the
/// machine.
async fn client(program: &Path, url: &str, password: Option<&str>, session: Option<&str>) -> Answer<Exit> {
    let mut command = Command::new(program);
    command.args(["attach", url]).stdin(Stdio::inherit());
    if let Some(session) = session {
        command.args(["--session", session]);
    }
    if let Some(password) = password {
        command.env(domain::contract::environment::OPENCODE_SERVER_PASSWORD, password);
    }
    let ended = command.status().await.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Problem::new("opencode is not installed on this machine")
            .next("install it (npm install -g opencode-ai), or use --print-url and another client"),
        _ => Problem::new(format!("opencode cannot be started: {error}")),
    })?;
    if ended.success() { Ok(Exit::Success) } else { Err(Problem::new(format!("opencode ended with {ended}"))) }
}

/// Sends heartbeats. Never returns.
async fn keep_awake(cluster: &Cluster, name: &str) {
    let mut clock = tokio::time::interval(HEARTBEAT);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock.tick().await;
    loop {
        clock.tick().await;
        send_heartbeat(cluster, name).await;
    }
}

/// Sends one heartbeat. A user without the right to write it can still work, but the Agent may be suspended meanwhile.
async fn send_heartbeat(cluster: &Cluster, name: &str) {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string();
    let patch = json!({ "metadata": { "annotations": { annotations::LAST_CONNECTION_ACTIVE: now } } });
    let written = cluster.api::<Agent>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    if let Err(error) = written {
        note(&format!("Agent '{name}' may be suspended meanwhile: {}", Problem::from(error)));
    }
}
