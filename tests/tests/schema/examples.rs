//! Every example works as its README describes: its commands are run, and applying it again changes nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use blackbox::{
    ApiServer as _, Kind, Request,
    cases::{self, as_sent, object_name},
    typed,
};
use serde_json::Value;

use crate::suite::{Server, Suite, on_every_server, run};

on_every_server!(every_example_applies_and_applies_again_unchanged,);

async fn every_example_applies_and_applies_again_unchanged(server: Server) -> anyhow::Result<()> {
    for directory in directories()? {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        works(server, &directory, &name).await.with_context(|| format!("examples/{name}"))?;
    }
    Ok(())
}

async fn works(server: Server, directory: &Path, name: &str) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let readme = fs::read_to_string(directory.join("README.md"))?;
    let commands = commands(&readme).context("its README has no block of commands")?;
    let apply = format!("kubectl apply -f examples/{name}/");
    assert!(commands.lines().any(|line| line == apply), "{name}/README.md does not say: {apply}");
    let mut objects = Vec::new();
    for file in cases::manifests_in(directory)? {
        objects.extend(cases::read::<Value>(&file)?);
    }
    let first = shell(&suite, &commands)?;
    let created = first.lines().filter(|line| line.ends_with(" created")).count();
    assert!(created >= objects.len(), "{name} has {} objects: {first}", objects.len());
    let stored = read_back(&suite, &objects).await?;
    for (object, stored) in objects.iter().zip(&stored) {
        nothing_is_lost(object, stored)?;
    }
    // kubectl calls a list "configured" again and again if the server adds defaults to its items: examples write them
    // out. What is stored counts as well: not even the resource version may change.
    let again = shell(&suite, &apply)?;
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{name}: {again}");
    assert_eq!(read_back(&suite, &objects).await?, stored, "{name}: {again}");
    Ok(())
}

/// Those of `objects` that are of our kinds, as they are stored; null for the others.
async fn read_back(suite: &Suite, objects: &[Value]) -> anyhow::Result<Vec<Value>> {
    let mut stored = Vec::new();
    for object in objects {
        stored.push(match Kind::named(object["kind"].as_str().unwrap_or_default()) {
            Ok(kind) => {
                let path = format!("{}/{}", kind.path(&suite.namespace), object_name(object));
                suite.server.send(Request::get(path)).await?.granted()?
            }
            Err(_) => Value::Null,
        });
    }
    Ok(stored)
}

fn nothing_is_lost(object: &Value, stored: &Value) -> anyhow::Result<()> {
    let Ok(kind) = Kind::named(object["kind"].as_str().unwrap_or_default()) else { return Ok(()) };
    assert_eq!(as_sent(stored), as_sent(&kind.with_defaults(object)));
    assert_eq!(typed::reread(stored)?["spec"], typed::reread(object)?["spec"]);
    Ok(())
}

#[test]
fn examples_are_where_people_look_for_them() -> anyhow::Result<()> {
    let names = directories()?.into_iter().filter_map(|d| Some(d.file_name()?.to_string_lossy().into_owned()));
    insta::assert_snapshot!("examples", names.collect::<Vec<_>>().join("\n"));
    Ok(())
}

/// The user who applies an example chooses the namespace.
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

/// The first block of shell commands, which applies the example.
fn commands(readme: &str) -> Option<String> {
    let (_, rest) = readme.split_once("```sh\n")?;
    Some(rest.split_once("```")?.0.to_owned())
}

/// Runs commands at the root of the repository, with the suite's kubectl, cluster and namespace.
fn shell(suite: &Suite, commands: &str) -> anyhow::Result<String> {
    let kubectl = suite.kubectl().parent().context("kubectl is in no directory")?.to_owned();
    let path =
        env::join_paths([kubectl].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap_or_default())))?;
    let mut command = Command::new("sh");
    command.args(["-e", "-c", commands]).current_dir(cases::repository("."));
    run(suite.select(command.env("PATH", path))?)
}

fn directories() -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(cases::repository("examples"))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}
