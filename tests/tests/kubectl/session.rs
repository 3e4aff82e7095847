//! A shell session: commands as a person types them, and everything that they print.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use tokio::time::timeout;

use crate::world::World;

/// No command takes more than a few seconds; a machine that is busy with builds needs longer.
const LIMIT: Duration = Duration::from_mins(1);

/// The commands of a file: its paragraphs. A paragraph that begins with `#` is for the reader.
pub struct Session {
    name: String,
    commands: Vec<String>,
}

impl Session {
    /// Reads a file.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let commands: Vec<String> =
            text.split("\n\n").map(str::trim).filter(|part| !part.starts_with('#')).map(str::to_owned).collect();
        ensure!(commands.iter().all(|command| !command.is_empty()), "{} has an empty paragraph", file.display());
        let stem: PathBuf = file.file_stem().context("a file without a name")?.into();
        Ok(Self { name: stem.display().to_string(), commands })
    }

    /// Runs the commands one after the other, and compares their output with the snapshot of this name.
    pub async fn hold(&self, world: &World) -> anyhow::Result<()> {
        let mut transcript = String::new();
        for command in &self.commands {
            let output = world.shell(command).stdin(Stdio::null()).output();
            let output = timeout(LIMIT, output).await.with_context(|| format!("{command}: it does not end"))??;
            writeln!(transcript, "$ {command}")?;
            transcript += &String::from_utf8_lossy(&output.stdout);
            for line in String::from_utf8_lossy(&output.stderr).lines() {
                writeln!(transcript, "stderr: {line}")?;
            }
            if !output.status.success() {
                writeln!(transcript, "{}", output.status)?;
            }
            transcript.push('\n');
        }
        let directory = world.directory().display().to_string();
        let transcript = transcript.replace(&directory, "[directory]").replace(&world.namespace, "[namespace]");
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false, filters => VARYING.to_vec() }, {
            insta::assert_snapshot!(self.name.as_str(), transcript);
        });
        Ok(())
    }
}

/// Values that differ in every run: times, ages, numbers assigned by servers.
const VARYING: [(&str, &str); 11] = [
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "[uid]"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "[moment]"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "[moment]"),
    (r#"(resourceVersion"?: "|Resource Version: +)\d+"#, "$1[version]"),
    // Ages: in the last column of a table, and in another one; of an event that happened again.
    (r"(?m)(  +)([0-9]+[smhd]){1,2}( \(x\d+ over [0-9smhd]+\))? *$", "$1[age]"),
    (r"(?m)(^|  +)([0-9]+[smhd]){1,2}( \(x\d+ over [0-9smhd]+\))?  +", "$1[age]  "),
    (r"\b127\.\d+\.\d+\.\d+\b", "[address]"),
    // Suffixes of names by a Deployment and a ReplicaSet.
    (r"\b([a-z]+)-[0-9a-z]{8,10}-[0-9a-z]{5}\b", "$1-[hash]"),
    (r"\b([a-z]+)-[0-9a-f]{8,10}\b", "$1-[hash]"),
    (r"(?m)^exit status: ", "exit code "),
    (r"(?m) +$", ""),
];
