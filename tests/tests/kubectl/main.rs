//! Third-party clients: the real kubectl, the Python package and kube-rs.
//!
//! Cases without a node run on Kubernetes' API server and on the embedded one, with the same output. Cases with a node
//! run on `kubeopencode up`, which is started once.
//!
//! Most cases are shell sessions in `sessions/`, with everything that they print in `snapshots/`. New snapshots are taken
//! with `INSTA_UPDATE=always` on the `real` server, and must then hold on the `embedded` one.

mod clients;
mod forward;
mod platform;
mod python;
mod rights;
mod scratch;
mod session;
mod terminal;
mod world;

use std::{collections::BTreeMap, process::ExitCode};

use blackbox::{
    cases,
    control_plane::Server,
    runner::{Case, Ready, run_ready},
};
use session::Session;
use world::World;

/// kubectl takes much processor time: more at once slow each other down.
const AT_ONCE: usize = 6;

fn main() -> ExitCode {
    let mut ready = Vec::new();
    // Each case first waits for its server: those whose server takes longest to start come first.
    for server in [Server::Real, Server::Embedded] {
        let prefix = if server == Server::Real { "real" } else { "embedded" };
        ready.extend(sessions("everywhere").into_iter().map(|(name, file)| -> Ready {
            let run = async move { Session::read(&file)?.hold(&World::on(server).await?).await };
            (format!("{prefix}::{name}"), Box::pin(run))
        }));
        ready.push((
            format!("{prefix}::rights"),
            Box::pin(async move { rights::hold(&World::on(server).await?).await }),
        ));
        ready.push((
            format!("{prefix}::python"),
            Box::pin(async move { python::objects(&World::on(server).await?).await }),
        ));
    }
    ready.push((
        "embedded::python_forgetting".to_owned(),
        Box::pin(async { python::forgetting(&World::on(Server::Embedded).await?).await }),
    ));
    ready.extend(sessions("node").into_iter().map(|(name, file)| -> Ready {
        let run = async move { Session::read(&file)?.hold(&World::on_a_platform().await?).await };
        (format!("platform::{name}"), Box::pin(run))
    }));
    let on_the_platform: [&[Case]; 4] = [terminal::CASES, forward::CASES, clients::CASES, python::CASES];
    ready.extend(on_the_platform.concat().into_iter().map(|(name, case)| {
        let name = name.strip_prefix(concat!(module_path!(), "::")).unwrap_or(name);
        (format!("platform::{name}"), case())
    }));
    run_ready(ready, AT_ONCE)
}

/// The sessions of a directory, by name.
fn sessions(directory: &str) -> BTreeMap<String, std::path::PathBuf> {
    let directory = cases::repository("tests/tests/kubectl/sessions").join(directory);
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter_map(|file| Some((file.file_stem()?.to_str()?.to_owned(), file))).collect()
}
