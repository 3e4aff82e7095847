//! The files that are generated from code. They are committed, so that people can read and link to them.

use std::{collections::BTreeMap, fs, io, path::Path};

use anyhow::{Context as _, bail};

use crate::{api_reference, cli_reference, environment_reference};

const CRDS: &str = "deploy/crds";

/// Path from the root of the repository -> content.
fn files() -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for (plural, text) in kubeopencode::crds::yaml()? {
        files.insert(format!("{CRDS}/{plural}.yaml"), text);
    }
    let crds = api::crds();
    // For the platform on one machine, which installs them at its start.
    let lines = crds.iter().flat_map(|crd| [crd.to_string(), "\n".to_owned()]).collect();
    files.insert("crates/local/definitions.jsonl".into(), lines);
    files.insert("docs/reference/api.md".into(), api_reference::page(&crds));
    files.insert("docs/reference/cli.md".into(), cli_reference::page());
    files.insert("docs/reference/environment.md".into(), environment_reference::page());
    files.insert("docs/reference/openapi.json".into(), server::openapi());
    Ok(files)
}

/// Writes every file, and removes definitions of kinds that are gone.
pub fn write(root: &Path) -> anyhow::Result<()> {
    let files = files()?;
    for stale in stale(root, &files)? {
        fs::remove_file(root.join(&stale))?;
    }
    for (path, content) in &files {
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    eprintln!("{} files are up to date", files.len());
    Ok(())
}

/// Fails if a file on disk differs from what would be generated.
pub fn check(root: &Path) -> anyhow::Result<()> {
    let files = files()?;
    let mut drifted = stale(root, &files)?;
    for (path, content) in &files {
        if fs::read_to_string(root.join(path)).unwrap_or_default() != *content {
            drifted.push(path.clone());
        }
    }
    if !drifted.is_empty() {
        bail!("not as the code says; run `make generate` and commit:\n  {}", drifted.join("\n  "));
    }
    eprintln!("{} generated files are as the code says", files.len());
    Ok(())
}

/// Files in the directory of generated definitions whose kinds no longer exist.
fn stale(root: &Path, files: &BTreeMap<String, String>) -> anyhow::Result<Vec<String>> {
    let entries = match fs::read_dir(root.join(CRDS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut stale = Vec::new();
    for entry in entries {
        let path = format!("{CRDS}/{}", entry?.file_name().to_string_lossy());
        if !files.contains_key(&path) {
            stale.push(path);
        }
    }
    Ok(stale)
}
