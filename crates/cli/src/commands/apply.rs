//! `apply`: creates or updates the objects of manifests by server-side apply.

use std::{collections::HashMap, path::PathBuf};

use api::names::GROUP;
use kube::{
    Api,
    api::{Patch, PatchParams, ValidationDirective},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    discovery::{Scope, pinned_kind},
};

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    kinds::Kind,
    manifest::{self, Manifest},
    output::{note, print},
    problem::{Answer, Problem},
};

/// Field manager of the applied fields.
const FIELD_MANAGER: &str = "kubeopencode-cli";

/// Arguments of `apply`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files or directories with manifests, or `-` for standard input.
    #[arg(short, long, required = true, value_name = "FILE", num_args = 1..)]
    filename: Vec<PathBuf>,
    /// Read subdirectories too.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Take ownership of fields that another manager applied.
    #[arg(long)]
    force_conflicts: bool,
    /// Validate on the server without changing anything.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Applies every object; a refused one does not stop the others.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    // Read everything before sending anything: an invalid file changes nothing.
    let manifests = manifest::read(&args.filename, args.recursive)?;
    let params = PatchParams {
        dry_run: args.dry_run,
        force: args.force_conflicts,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
    };
    let mut places = Places::new(cluster);
    let mut refused = Vec::new();
    for manifest in manifests {
        match apply(&mut places, &manifest, &params).await {
            Ok((name, what)) => {
                print(&format!("{name} {what}{}\n", if args.dry_run { " (dry run)" } else { "" }))?;
            }
            Err(problem) => refused.push(problem.while_doing(&manifest.file)),
        }
    }
    combine_problems(refused)
}

/// Success, or the last problem; prints the earlier ones. If the problems have different exit codes, the exit code is
/// that of a failure.
pub fn combine_problems(mut problems: Vec<Problem>) -> Answer<Exit> {
    let Some(last) = problems.pop() else { return Ok(Exit::Success) };
    let differ = problems.iter().any(|problem| problem.exit() != last.exit());
    for problem in problems {
        note(&format!("error: {problem}"));
    }
    Err(if differ { last.with_exit(Exit::Failed) } else { last })
}

async fn apply(places: &mut Places, manifest: &Manifest, params: &PatchParams) -> Answer<(String, &'static str)> {
    let place = places.of(manifest).await?;
    let before = place.api.get_opt(&place.name).await?.and_then(|object| object.metadata.resource_version);
    let after = place.api.patch(&place.name, params, &Patch::Apply(&manifest.object)).await?;
    let what = match before {
        None => "created",
        Some(version) if after.metadata.resource_version.as_ref() == Some(&version) => "unchanged",
        Some(_) => "configured",
    };
    Ok((place.shown, what))
}

/// The API and the name of an object.
pub struct Place {
    /// The API of the object's kind, in the object's namespace.
    pub api: Api<DynamicObject>,
    pub name: String,
    /// The name in output: `task.kubeopencode.io/fix`.
    pub shown: String,
}

/// Locates objects. Caches the discovery of kinds.
pub struct Places {
    cluster: Cluster,
    known: HashMap<GroupVersionKind, (ApiResource, bool)>,
}

impl Places {
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, known: HashMap::new() }
    }

    /// Locates the object of a manifest.
    pub async fn of(&mut self, manifest: &Manifest) -> Answer<Place> {
        let text = |key: &str| manifest.object[key].as_str().unwrap_or_default();
        let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let (resource, namespaced) = self.resource(GroupVersionKind::gvk(group, version, text("kind"))).await?;
        let metadata = &manifest.object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        let namespace = metadata["namespace"].as_str().unwrap_or(&self.cluster.namespace);
        let client = self.cluster.client.clone();
        let api = if namespaced {
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        let kind = resource.kind.to_ascii_lowercase();
        let shown = if group.is_empty() { format!("{kind}/{name}") } else { format!("{kind}.{group}/{name}") };
        Ok(Place { api, name, shown })
    }

    async fn resource(&mut self, gvk: GroupVersionKind) -> Answer<(ApiResource, bool)> {
        if let Some(known) = self.known.get(&gvk) {
            return Ok(known.clone());
        }
        // Our own kinds need no discovery.
        let own = (gvk.group == GROUP).then(|| Kind::named(&gvk.kind).ok()).flatten();
        let found = if let Some(kind) = own {
            (ApiResource::from_gvk_with_plural(&gvk, &kind.plural), kind.namespaced)
        } else {
            let found = pinned_kind(&self.cluster.client, &gvk).await;
            let (resource, capabilities) = found.map_err(|error| match Problem::from(error) {
                problem if problem.exit() == Exit::Unreachable => problem,
                _ => Problem::not_found(format!("the cluster knows no kind '{}' in '{}'", gvk.kind, gvk.api_version()))
                    .next("check apiVersion and kind, or install the definition first"),
            })?;
            (resource, capabilities.scope == Scope::Namespaced)
        };
        self.known.insert(gvk, found.clone());
        Ok(found)
    }
}
