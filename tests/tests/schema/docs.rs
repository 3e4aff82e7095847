//! Every block of YAML in the documentation is accepted by an API server that knows the kinds.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::Context as _;
use blackbox::cases;
use serde_json::{Value, json};

use crate::suite::{Server, Suite, kubectl, on_every_server};

on_every_server!(every_block_of_yaml_in_the_documentation_is_accepted,);

/// Pages with blocks of YAML, and how many blocks each has at least.
const PAGES: [(&str, usize); 4] = [("results", 4), ("caches", 1), ("workspaces", 3), ("services", 3)];

async fn every_block_of_yaml_in_the_documentation_is_accepted(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let directory = tempfile::tempdir()?;
    let mut found = BTreeMap::new();
    for page in pages()? {
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&page)?;
        for (number, block) in blocks(&text).into_iter().enumerate() {
            let file = directory.path().join(format!("{name}-{number}.yaml"));
            fs::write(&file, whole(block)?.to_string())?;
            let args = ["apply", "--dry-run=server", "--validate=strict", "-f", &file.to_string_lossy()];
            let output = kubectl(&suite, args).with_context(|| format!("docs/{name}.md, block {}", number + 1))?;
            assert!(output.contains("created (server dry run)"), "{output}");
            *found.entry(name.clone()).or_insert(0) += 1;
        }
    }
    for (page, least) in PAGES {
        assert!(found.get(page).is_some_and(|count| *count >= least), "docs/{page}.md: {found:?}");
    }
    Ok(())
}

/// The pages for users. Those in directories below are generated, or are not for users.
fn pages() -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(cases::repository("docs"))?;
    let mut pages = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    pages.retain(|path| path.extension().is_some_and(|end| end == "md"));
    pages.sort();
    Ok(pages)
}

fn blocks(text: &str) -> Vec<&str> {
    text.split("```yaml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect()
}

/// The object of a block. A block with a spec alone is about a Task on a template.
fn whole(block: &str) -> anyhow::Result<Value> {
    let mut object: Value = serde_saphyr::from_str(block)?;
    if object["kind"].is_null() {
        let spec = object["spec"].as_object_mut().context("a block has neither a kind nor a spec")?;
        spec.entry("templateRef").or_insert_with(|| json!({ "name": "default" }));
        spec.entry("description").or_insert_with(|| json!("x"));
        object["apiVersion"] = json!("kubeopencode.io/v1alpha1");
        object["kind"] = json!("Task");
        object["metadata"] = json!({ "name": "documented" });
    }
    Ok(object)
}
