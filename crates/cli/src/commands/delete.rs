//! `delete`: deletes objects of our kinds, or the objects of manifests.

use std::{path::PathBuf, time::Duration};

use kube::{
    Api,
    api::{DeleteParams, ListParams},
    core::DynamicObject,
    runtime::wait::{await_condition, conditions::is_deleted},
};

use super::{
    apply::{Places, combine_problems},
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    kinds::named,
    manifest,
    output::print,
    problem::{Answer, Problem},
    span,
};

/// Arguments of `delete`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Kind and names: `task fix other`, `task/fix agent/dev`.
    #[arg(value_name = "KIND", required_unless_present = "filename", conflicts_with = "filename")]
    what: Vec<String>,
    /// Delete what these files, directories or `-` (standard input) name.
    #[arg(short, long, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Read subdirectories too.
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Every object of the kind with these labels.
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with_all = ["all", "filename"])]
    selector: Option<String>,
    /// Every object of the kind in the namespace.
    #[arg(long, conflicts_with = "filename")]
    all: bool,
    /// Do not fail if an object does not exist.
    #[arg(long)]
    ignore_not_found: bool,
    /// Do not wait until the objects are gone. A running Task is stopped first, which takes a moment.
    #[arg(long)]
    no_wait: bool,
    /// Wait at most this long for each.
    #[arg(long, value_name = "SPAN", default_value = "2m", value_parser = span::read)]
    timeout: Duration,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

struct Doomed {
    api: Api<DynamicObject>,
    name: String,
    shown: String,
}

/// Deletes objects; one that cannot be deleted does not stop the others.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let doomed =
        if args.filename.is_empty() { chosen(&args, &cluster).await? } else { of_files(&args, cluster).await? };
    let mut problems = Vec::new();
    let mut going = Vec::new();
    for object in doomed {
        match object.api.delete(&object.name, &DeleteParams::default()).await {
            Ok(answer) => {
                let uid = answer.left().and_then(|left| left.metadata.uid);
                if args.no_wait {
                    print(&format!("{} is being deleted\n", object.shown))?;
                } else {
                    going.push((object, uid));
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 && args.ignore_not_found => {}
            Err(error) => problems.push(error.into()),
        }
    }
    for (object, uid) in going {
        // A response without an object means that the object is already deleted.
        if let Some(uid) = uid {
            let gone = await_condition(object.api.clone(), &object.name, is_deleted(&uid));
            if tokio::time::timeout(args.timeout, gone).await.is_err() {
                problems.push(Problem::new(format!("{} is not gone after {:?}", object.shown, args.timeout)).next(
                    "it is removed when a controller has cleaned up; check the controllers with `kubeopencode doctor`",
                ));
                continue;
            }
        }
        print(&format!("{} deleted\n", object.shown))?;
    }
    combine_problems(problems)
}

async fn of_files(args: &Args, cluster: Cluster) -> Answer<Vec<Doomed>> {
    let mut places = Places::new(cluster);
    let mut doomed = Vec::new();
    for manifest in manifest::read(&args.filename, args.recursive)? {
        let place = places.of(&manifest).await?;
        doomed.push(Doomed { api: place.api, name: place.name, shown: place.shown });
    }
    Ok(doomed)
}

async fn chosen(args: &Args, cluster: &Cluster) -> Answer<Vec<Doomed>> {
    let mut doomed = Vec::new();
    for wanted in named(&args.what)? {
        let api = wanted.kind.api(cluster.client.clone(), Some(&cluster.namespace));
        let names = match wanted.name {
            Some(_) if args.all || args.selector.is_some() => {
                return Err(Problem::usage("a name, --selector and --all exclude each other"));
            }
            Some(name) => vec![name],
            None if args.all || args.selector.is_some() => {
                let params = ListParams { label_selector: args.selector.clone(), ..ListParams::default() };
                api.list(&params).await?.items.into_iter().filter_map(|object| object.metadata.name).collect()
            }
            None => {
                return Err(Problem::usage(format!("which {}?", wanted.kind.plural))
                    .next("name them, or choose with --selector or --all"));
            }
        };
        let one = |name: String| Doomed { api: api.clone(), shown: wanted.kind.full_name(&name), name };
        doomed.extend(names.into_iter().map(one));
    }
    Ok(doomed)
}
