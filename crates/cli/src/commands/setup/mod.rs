//! `setup`: the model of a first Task. Asks for what its flags leave open if a person is there.

mod prompt;

use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

use api::{Task, TaskSpec, refs::LocalRef};
use clap::builder::PossibleValuesParser;
use domain::{
    onboarding::{self, ApiKey, Connection, FIELD_MANAGER, Finding, Manifest, Probe, Provider, Setup, SetupError},
    workload::names,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams, ValidationDirective},
    core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta},
};

use super::{
    connect::{Cluster, ClusterArgs},
    exit::Exit,
    log::LogArgs,
    output::{note, print, program},
    problem::{Answer, Problem},
    task::{follow::Follow, run::attend},
};

/// Longest key file that is read, in bytes.
const LARGEST_KEY_FILE: u64 = 64 * 1024;
/// The Task that is offered at the end.
const FIRST_TASK: &str = "Say hello and describe in one sentence what you can do.";
/// Models that a message names at most.
const SHOWN_MODELS: usize = 12;

/// Arguments of `setup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Provider of the model.
    #[arg(long, value_parser = PossibleValuesParser::new(Provider::ALL.map(Provider::name)))]
    provider: Option<String>,
    /// Address of the provider's API; required for openai-compatible.
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Name of the model at the provider.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// File that contains the API key.
    #[arg(long, value_name = "FILE", conflicts_with = "key_stdin")]
    key_file: Option<PathBuf>,
    /// Read the API key from standard input.
    #[arg(long)]
    key_stdin: bool,
    /// Name of the ModelProvider and the template [default: the name of the provider].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Save without testing the provider, for an address that only the cluster reaches.
    #[arg(long)]
    no_test: bool,
    /// Run a first Task with this description.
    #[arg(long, value_name = "DESCRIPTION")]
    run: Option<String>,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// Tests the provider, saves its objects, and runs a first Task if wanted.
pub async fn run(cluster: Cluster, args: Args) -> Answer<Exit> {
    let person = prompt::is_person_there() && !args.key_stdin;
    let connection = connection(&args, person)?;
    let model = model(&args, &connection, person).await?;
    let setup = Setup { connection, name: args.name.clone(), model };
    let manifests = onboarding::manifests(&setup, &cluster.namespace).map_err(invalid)?;
    save(&cluster, &manifests).await?;
    let template = manifests.last().map(|manifest| manifest.name.clone()).unwrap_or_default();
    let first = match &args.run {
        Some(description) => Some(description.clone()),
        None if person => prompt::agrees("Run a first Task now?")?.then(|| FIRST_TASK.to_owned()),
        None => None,
    };
    if let Some(description) = first {
        return first_task(&cluster, &template, description).await;
    }
    let namespace = &cluster.namespace;
    note(&format!("run a Task with: {} run -t {template} -n {namespace} 'Say hello'", program()));
    Ok(Exit::Success)
}

/// The provider, its address and its key.
fn connection(args: &Args, person: bool) -> Answer<Connection> {
    let named = args.provider.as_deref();
    let provider = match Provider::ALL.into_iter().find(|provider| Some(provider.name()) == named) {
        Some(provider) => provider,
        None if person => Provider::ALL[prompt::choose("Provider", &Provider::ALL.map(Provider::title), 0)?],
        None => {
            let all = Provider::ALL.map(Provider::name).join(", ");
            return Err(Problem::usage("--provider is required without a terminal").next(format!("name one of: {all}")));
        }
    };
    let asks_for_url = provider.needs_url() || provider == Provider::Ollama;
    let base_url = match &args.base_url {
        Some(url) => Some(url.clone()),
        None if person && asks_for_url => Some(prompt::ask("Base URL", provider.default_url())?),
        None if provider.needs_url() => return Err(Problem::usage("--base-url is required for openai-compatible")),
        None => None,
    };
    let key = match (&args.key_file, args.key_stdin) {
        (Some(file), _) => key_file(file)?,
        (None, true) => key_of(&mut std::io::stdin().lock(), "standard input")?,
        (None, false) if person && provider != Provider::Ollama => {
            let optional = if provider.needs_key() { "" } else { ", or Enter for none" };
            ApiKey::read(&prompt::ask_hidden(&format!("API key (hidden{optional})"))?)
        }
        (None, false) if provider.needs_key() => {
            return Err(Problem::usage(format!("{} requires a key", provider.title()))
                .next("pass it with --key-file FILE or --key-stdin"));
        }
        (None, false) => None,
    };
    Ok(Connection { provider, base_url, key })
}

fn key_file(file: &Path) -> Answer<Option<ApiKey>> {
    let shown = file.display().to_string();
    let mut opened = fs::File::open(file).map_err(|error| Problem::from(error).while_doing(&shown))?;
    key_of(&mut opened, &shown)
}

/// The key in a file or standard input; the text is in no error.
fn key_of(source: &mut dyn std::io::Read, shown: &str) -> Answer<Option<ApiKey>> {
    let mut text = String::new();
    source.take(LARGEST_KEY_FILE).read_to_string(&mut text).map_err(|error| Problem::from(error).while_doing(shown))?;
    match ApiKey::read(&text) {
        Some(key) => Ok(Some(key)),
        None => Err(Problem::usage(format!("{shown} contains no key"))),
    }
}

/// The model, tested unless `--no-test` is set.
async fn model(args: &Args, connection: &Connection, person: bool) -> Answer<String> {
    if let Some(model) = &args.model {
        if !args.no_test {
            test(connection, Some(model)).await?;
        }
        return Ok(model.clone());
    }
    if args.no_test {
        return if person {
            prompt::ask("Model", None)
        } else {
            Err(Problem::usage("--model is required with --no-test"))
        };
    }
    let Finding { models, suggested, .. } = test(connection, None).await?;
    if !person {
        let some: Vec<_> = models.iter().take(SHOWN_MODELS).map(String::as_str).collect();
        return Err(Problem::usage("--model is required without a terminal")
            .next(format!("the provider offers, among others: {}", some.join(", "))));
    }
    let suggested = suggested.unwrap_or_default();
    let model = if models.len() <= SHOWN_MODELS && !models.is_empty() {
        let at = models.iter().position(|model| *model == suggested).unwrap_or_default();
        let names: Vec<_> = models.iter().map(String::as_str).collect();
        models[prompt::choose("Model", &names, at)?].clone()
    } else {
        prompt::ask("Model", Some(suggested.as_str()).filter(|model| !model.is_empty()))?
    };
    test(connection, Some(&model)).await?;
    Ok(model)
}

/// Tests the provider from this machine.
async fn test(connection: &Connection, model: Option<&str>) -> Answer<Finding> {
    let probe = Probe::new(connection, model).map_err(invalid)?;
    let finding = server::test_provider(probe, egress::Loopback::Allowed).await;
    if finding.works {
        note(&finding.message);
        return Ok(finding);
    }
    let problem = Problem::new(finding.message);
    Err(if connection.base_url.is_some() {
        problem.next("if only the cluster reaches this address, save it untested with --no-test")
    } else {
        problem
    })
}

fn invalid(SetupError { field, message }: SetupError) -> Problem {
    let flag = match field {
        "baseUrl" => "--base-url",
        "model" => "--model",
        "name" => "--name",
        _ => "API key",
    };
    Problem::usage(format!("{flag}: {message}"))
}

/// Applies the objects. A conflict with another manager stops: an object of others is not taken over.
async fn save(cluster: &Cluster, manifests: &[Manifest]) -> Answer<()> {
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::default()
    };
    for manifest in manifests {
        let Manifest { kind, plural, group, name, object } = manifest;
        let version = if group.is_empty() { "v1" } else { api::names::VERSION };
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource);
        let shown =
            if group.is_empty() { kind.to_ascii_lowercase() } else { format!("{}.{group}", kind.to_ascii_lowercase()) };
        api.patch(name, &params, &Patch::Apply(object)).await.map_err(|error| {
            let conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
            let problem = Problem::from(error).while_doing(&format!("{shown}/{name}"));
            if conflict { problem.next("others changed this object: choose another name with --name") } else { problem }
        })?;
        print(&format!("{shown}/{name} saved\n"))?;
    }
    Ok(())
}

async fn first_task(cluster: &Cluster, template: &str, description: String) -> Answer<Exit> {
    let spec =
        TaskSpec { description: Some(description), template_ref: Some(LocalRef::new(template)), ..TaskSpec::default() };
    let runs_on = names::runs_on(&spec).map(|(label, name)| (label.to_owned(), name.to_owned()));
    let metadata = ObjectMeta {
        generate_name: Some("first-task-".to_owned()),
        namespace: Some(cluster.namespace.clone()),
        labels: Some(runs_on.into_iter().collect()),
        ..ObjectMeta::default()
    };
    let task = Task { metadata, spec, status: None };
    let task = cluster.api::<Task>().create(&PostParams::default(), &task).await?;
    let name = task.name_any();
    note(&format!("task.kubeopencode.io/{name} created"));
    attend(cluster, &name, &Follow { log: Some(LogArgs::default()), stages: true, after_run: None }, false).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_without_white_space_and_never_shown() {
        let key = key_of(&mut " sk-1\n".as_bytes(), "file").unwrap();
        assert_eq!(key.unwrap().reveal(), "sk-1");
        assert_eq!(key_of(&mut "\n".as_bytes(), "k.txt").unwrap_err().to_string(), "k.txt contains no key");
        let error = key_of(&mut [0xff, b's', b'k'].as_slice(), "k.txt").unwrap_err();
        assert!(!error.to_string().contains("sk"), "{error}");
    }
}
