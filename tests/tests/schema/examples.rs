//! Every example works as its README says: its commands are run, and applying it again changes nothing.

use std::{env, fs, path::PathBuf, process::Command};

use anyhow::Context as _;
use blackbox::{
    ApiServer as _, Kind, Request,
    cases::{self, as_sent, object_name},
    typed,
};
use serde_json::Value;

use crate::suite::{Suite, kubectl, run};

#[tokio::test]
async fn every_example_applies_and_applies_again_unchanged() -> anyhow::Result<()> {
    for directory in directories()? {
        let suite = Suite::start().await?;
        let readme = fs::read_to_string(directory.join("README.md")).with_context(|| directory.display().to_string())?;
        let commands = commands(&readme).with_context(|| format!("{}: no block of commands", directory.display()))?;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let apply = format!("kubectl apply -f examples/{name}/");
        assert!(commands.lines().any(|line| line == apply), "{name}/README.md does not say: {apply}");
        shell(&suite, &commands)?;
        // kubectl calls a list "configured" again and again if the server added defaults to its items, so what counts is
        // what is stored.
        let versions = format!("kubectl get -f examples/{name}/ -o jsonpath='{{.items[*].metadata.resourceVersion}}'");
        let before = shell(&suite, &versions)?;
        let again = shell(&suite, &apply)?;
        assert_eq!(shell(&suite, &versions)?, before, "{name}: {again}");
        for file in cases::manifests_in(&directory)? {
            for object in cases::read::<Value>(&file)? {
                nothing_is_lost(&suite, &object).await.with_context(|| file.display().to_string())?;
            }
        }
    }
    Ok(())
}

#[test]
fn examples_are_where_people_look_for_them() -> anyhow::Result<()> {
    let names = directories()?.into_iter().filter_map(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    insta::assert_snapshot!("examples", names.collect::<Vec<_>>().join("\n"));
    Ok(())
}

/// Whoever applies an example chooses the namespace.
#[test]
fn no_example_names_a_namespace() -> anyhow::Result<()> {
    for directory in directories()? {
        for file in cases::manifests_in(&directory)? {
            for object in cases::read::<Value>(&file)? {
                assert!(object["metadata"]["namespace"].is_null(), "{}", file.display());
            }
        }
    }
    Ok(())
}

async fn nothing_is_lost(suite: &Suite, object: &Value) -> anyhow::Result<()> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let Ok(kind) = Kind::named(kind) else {
        // Kubernetes' own kinds are not ours to judge; they are there.
        kubectl(suite, ["get", kind, object_name(object)])?;
        return Ok(());
    };
    let path = format!("{}/{}", kind.path(&suite.namespace), object_name(object));
    let stored = suite.server.send(Request::get(path)).await?.granted()?;
    assert_eq!(as_sent(&stored), as_sent(&kind.with_defaults(object)));
    assert_eq!(typed::reread(&stored)?["spec"], typed::reread(object)?["spec"]);
    Ok(())
}

/// The first block of shell commands: what makes the example.
fn commands(readme: &str) -> Option<String> {
    let (_, rest) = readme.split_once("```sh\n")?;
    Some(rest.split_once("```")?.0.to_owned())
}

/// Runs commands at the root of the repository, with the suite's kubectl, cluster and namespace.
fn shell(suite: &Suite, commands: &str) -> anyhow::Result<String> {
    let kubectl = suite.cluster.kubectl().parent().context("kubectl is in no directory")?.to_owned();
    let path = env::join_paths([kubectl].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())))?;
    let mut command = Command::new("sh");
    command.args(["-e", "-c", commands]).current_dir(cases::repository("."));
    run(suite.select(command.env("PATH", path)))
}

fn directories() -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(cases::repository("examples"))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}
