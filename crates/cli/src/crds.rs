//! `kubeopencode crds`: the definitions of our kinds.

use std::io::Write;

use anyhow::Context as _;
use clap::ValueEnum;

/// Arguments of `kubeopencode crds`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Format of the definitions.
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

/// Prints every definition.
pub fn print(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    match args.output {
        Format::Yaml => {
            for (_, text) in yaml()? {
                write!(out, "---\n{text}")?;
            }
        }
        Format::Json => {
            let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": api::crds() });
            serde_json::to_writer_pretty(&mut *out, &list)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Every definition as YAML, with the plural name of its kind.
pub fn yaml() -> anyhow::Result<Vec<(String, String)>> {
    api::crds()
        .iter()
        .map(|crd| {
            let plural = crd["spec"]["names"]["plural"].as_str().context("a definition without a plural name")?;
            Ok((plural.to_owned(), serde_saphyr::to_string(crd)?))
        })
        .collect()
}
